"""A core that is divided: each process has a fixed part of its time, and never more."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from colocation.sharing import home_of, move, this_hierarchy

PERIOD_MICROSECONDS = 8000
"""Short against a step of the engine, so that a part of the core is like a core that is slower."""

GREATEST_SHARES, GREATEST_WEIGHT = 262144, 10000
"""Of `cpu.shares` and `cpu.weight`: what is limited gets its part also beside a process that is not."""


@contextlib.contextmanager
def sliced(parts: Mapping[int, float]) -> Iterator[None]:
    """Has each process in a group of its own with so large a part of a core; removes the groups after.

    Raises:
        OSError: The groups cannot be made; nothing of them is left.
    """
    here = this_hierarchy()
    with contextlib.ExitStack() as stack:
        for process, part in parts.items():
            group = here.root / f"rowen-benchmark-{os.getpid()}-slice-{process}"
            group.mkdir()
            stack.callback(group.rmdir)
            _limit(group, here.version, part)
            stack.callback(move, [process], home_of(here))
            move([process], group)
        yield


def _limit(group: Path, version: int, part: float) -> None:
    quota = round(part * PERIOD_MICROSECONDS)
    if version == 1:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cpu.shares").write_text(str(GREATEST_SHARES))
    else:
        (group / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        (group / "cpu.weight").write_text(str(GREATEST_WEIGHT))
