"""Figures of many devices side by side: of nodes with new reports read all at once, of the others kept."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.device import DeviceView
from rowen.scheduler.snapshot import NodeView

Numbers = NDArray[np.float64]
PARTS = 4
"""Of an outline."""


def side_by_side(nodes: Sequence[NodeView], read: Callable[[Sequence[DeviceView]], Numbers]) -> list[Numbers]:
    """Of each node what `read` makes of its devices, in the order of their ids: a column each."""
    new = [node for node in nodes if read not in node.figures]
    if new:
        found, at = read([device for node in new for device in node.by_id.values()]), 0
        for node in new:
            # A copy: else the figures of one node would keep those of all.
            node.figures[read] = found[:, at : at + len(node.by_id)].copy()
            at += len(node.by_id)
    return [node.figures[read] for node in nodes]


def basics(devices: Sequence[DeviceView]) -> Numbers:
    """Idle time, its deviation, bytes, and those of them beside what the online pod may have (`DeviceView.room`).

    Then as 0 or 1 whether that is known, and whether the device is open; last how many numbers tell of its memory over
    time.
    """
    online = [device.online_memory for device in devices]
    figures = [
        [device.idle for device in devices],
        [device.deviation for device in devices],
        [device.memory for device in devices],
        [0 if bytes_ is None else bytes_ for bytes_ in online],
        [bytes_ is not None for bytes_ in online],
        [not device.closed for device in devices],
        [len(device.available) for device in devices],
    ]
    found = np.array(figures, np.float64)
    found[3] = np.where(found[4] > 0.0, found[2] - found[3], 0.0)
    return found


def outlines(devices: Sequence[DeviceView]) -> Numbers:
    """The most bytes that each lent in each of `PARTS` equal parts of the time; 0 where nothing is told of it."""
    lent = [device.available for device in devices]
    counts = set(map(len, lent))
    # Most often all reports are equally long.
    ends = map(_ends(*counts), lent) if len(counts) == 1 else (_ends(len(numbers))(numbers) for numbers in lent)
    return np.fromiter(chain.from_iterable(ends), np.float64, PARTS * len(devices)).reshape(-1, PARTS).T


@cache
def _ends(count: int) -> Callable[[tuple[int, ...]], Any]:
    """Takes the last of each part out of so many numbers, ascending; the last of all where they do not part evenly."""
    if not count:
        return lambda _: (0,) * PARTS
    step = count // PARTS
    return itemgetter(*(range(step - 1, count, step) if count % PARTS == 0 else (count - 1,) * PARTS))
