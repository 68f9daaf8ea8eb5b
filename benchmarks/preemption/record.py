"""What a tenant writes down of itself in shared memory: from when to when it ran.

Nothing in it comes from Rowen. Times are nanoseconds of CLOCK_MONOTONIC.
"""

import mmap
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

APART_NS = 2_000_000
"""A pause as long as this ends a run: longer than a step of the engine, which has the CPU meanwhile, and shorter than
any stop, after which the gate stays closed for the engine's step and a cooldown."""
NEVER = 2**63
"""After everything that is written down."""
_MOST_RUNS = 1 << 19
_WORD = 8


class Run(NamedTuple):
    """From one of the tenant's looks at the clock to another, with no long pause in between."""

    begin_ns: int
    end_ns: int


class Pause(NamedTuple):
    """From one run to the next."""

    begin_ns: int
    end_ns: int


def make(path: Path) -> Path:
    """An empty record."""
    with path.open("wb") as file:
        file.truncate(_WORD * (1 + 2 * _MOST_RUNS))
    return path


class Record:
    """A record in this process's memory: the number of runs, and begin and end of each."""

    def __init__(self, path: Path) -> None:
        """Opens what `make` has made."""
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        self._lock = threading.Lock()

    def note(self) -> None:
        """The tenant runs now. For the threads of one process."""
        words = self._words
        with self._lock:
            now, runs = time.monotonic_ns(), words[0]
            if runs and now - words[2 * runs] < APART_NS:
                words[2 * runs] = now
                return
            words[2 * runs + 1] = words[2 * runs + 2] = now
            words[0] = runs + 1

    def last_ns(self) -> int:
        """When the tenant ran last; 0: never."""
        return self._words[2 * self._words[0]] if self._words[0] else 0

    def runs(self) -> list[Run]:
        """All of them, oldest first."""
        words = self._words[1 : 1 + 2 * self._words[0]].tolist()
        return [Run(begin, end) for begin, end in zip(words[::2], words[1::2], strict=True)]


def united(records: Iterable[Sequence[Run]]) -> list[Run]:
    """Runs of anybody: those that overlap or are no long pause apart are one."""
    found: list[Run] = []
    for run in sorted(run for runs in records for run in runs):
        if found and run.begin_ns - found[-1].end_ns < APART_NS:
            found[-1] = Run(found[-1].begin_ns, max(found[-1].end_ns, run.end_ns))
        else:
            found.append(run)
    return found


def pauses(runs: Sequence[Run]) -> list[Pause]:
    """What lies between runs, and after the last one. `runs` as `united` gives them."""
    following = [*runs[1:], Run(NEVER, NEVER)]
    return [Pause(run.end_ns, after.begin_ns) for run, after in zip(runs, following, strict=False)]


def pauses_of(pauses: Sequence[Pause], begin_ns: int, end_ns: int) -> Sequence[Pause]:
    """Those that lie, in part or whole, between two times."""
    after = bisect_right(pauses, begin_ns, key=lambda pause: pause.end_ns)
    return pauses[after : bisect_left(pauses, end_ns, key=lambda pause: pause.begin_ns)]


def last_within(runs: Sequence[Run], begin_ns: int, end_ns: int) -> int:
    """When somebody ran last between two times; the first of them, where nobody did. `runs` as `united` gives them."""
    before = bisect_left(runs, end_ns, key=lambda run: run.begin_ns)
    return max(begin_ns, min(runs[before - 1].end_ns, end_ns)) if before else begin_ns
