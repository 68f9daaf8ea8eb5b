"""A device that is open beside requests, for a share of it. Pure: no clock, no I/O. Times in seconds, monotonic clock.

A share belongs to an opening, which lasts from when the gate was opened after a close to the next close.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from math import inf

from rowen.crds.harvest.spatial import Spatial
from rowen.crds.text.digits import significant
from rowen.node_agent.devices.counts import Closing

_DIGITS = 3


def until(closings: Iterable[Closing]) -> Iterator[tuple[Closing, float]]:
    """Each, and when all of the device was open after it, or the next one came; infinity: not yet.

    In their order.
    """
    for closing, following in _followed(closings):
        if closing.opened is not None and closing.share is None:
            yield closing, closing.opened
        else:
            yield closing, following.closed if following else inf


def spatial(closings: Iterable[Closing], begin: float, end: float, shared_seconds: float) -> Spatial | None:
    """What offline work might use beside requests from `begin` to `end`; None: nothing.

    `shared_seconds`: how long the device was open at a share in that time. It is counted where it happens; of closings,
    in their order, some may be missing where there were very many, so that they tell the mean share alone.
    """
    stretches = list(_shared(closings, begin, end))
    total = sum(length for length, _ in stretches)
    if total <= 0.0 or shared_seconds <= 0.0:
        return None
    mean = sum(length * share for length, share in stretches) / total
    return Spatial(
        share=significant(mean, _DIGITS), open_fraction=significant(min(1.0, shared_seconds / (end - begin)), _DIGITS)
    )


def _shared(closings: Iterable[Closing], begin: float, end: float) -> Iterator[tuple[float, float]]:
    """Seconds open at a share, and the share. How long an opening lasted whose next close is missing is not known."""
    for closing, following in _followed(closings):
        if closing.share is None or closing.opened is None or (following and following.number != closing.number + 1):
            continue
        last = min(end, following.closed) if following else end
        yield max(0.0, last - max(begin, closing.opened)), closing.share


def _followed(closings: Iterable[Closing]) -> Iterator[tuple[Closing, Closing | None]]:
    ends: tuple[Closing | None, ...] = (None,)
    for closing, following in pairwise(chain(closings, ends)):
        if closing is not None:
            yield closing, following
