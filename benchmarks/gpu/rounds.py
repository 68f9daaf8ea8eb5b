"""Stops and starts a tenant over and over, and watches in its counters when it stands still and when it goes on."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

WATCH_NS = 1_000_000
"""How long counters are watched after a stop has returned: what moves later shows while the stop is held."""
PROGRESS_NS = 2_000_000_000

Switch = Callable[[bool], int]
"""Stops (True) or starts; returns the RM's status, 0 when done."""


@dataclass(frozen=True, slots=True)
class Round:
    """Nanoseconds from the beginning of the call that stops or starts."""

    stop_returned: int
    still: int
    """Last progress seen; 0: none since the call began."""
    go_returned: int
    running: int
    """First progress seen."""
    moved: int
    """Counters that moved while the stop was held, after the watch."""


class RefusedError(RuntimeError):
    """The driver said no."""

    def __init__(self, verb: str, status: int) -> None:
        super().__init__(f"{verb}: {status:#x}")
        self.status = status


def _last_change(counters: NDArray[np.uint64], begin: int, end: int) -> int:
    """When the sum was last seen to change, counted from `begin`."""
    known, last = int(counters.sum()), begin
    while (now := time.perf_counter_ns()) < end:
        if (total := int(counters.sum())) != known:
            known, last = total, now
    return last - begin


def _first_change(counters: NDArray[np.uint64], known: int, begin: int) -> int:
    """When the sum was first seen to differ. Raises `TimeoutError`: the tenant does not go on, or has ended."""
    while int(counters.sum()) == known:
        if time.perf_counter_ns() - begin > PROGRESS_NS:
            raise TimeoutError("no progress within 2 s of a start")
    return time.perf_counter_ns() - begin


def one_round(switch: Switch, counters: NDArray[np.uint64], hold_seconds: float) -> Round:
    """Stops, watches, holds, starts. Raises `RefusedError`; the tenant is then started again, if that is possible."""
    begin = time.perf_counter_ns()
    if status := switch(True):
        switch(False)
        raise RefusedError("stop", status)
    returned = time.perf_counter_ns()
    still = _last_change(counters, begin, returned + WATCH_NS)
    held = counters.copy()
    time.sleep(hold_seconds)
    moved = int((counters != held).sum())
    known = int(counters.sum())
    again = time.perf_counter_ns()
    if status := switch(False):
        raise RefusedError("go", status)
    gone = time.perf_counter_ns()
    running = _first_change(counters, known, again)
    return Round(returned - begin, still, gone - again, running, moved)


def measure(
    switch: Switch, counters: NDArray[np.uint64], count: int, hold_seconds: float, seed: int
) -> dict[str, object]:
    """`count` rounds with random holds and pauses, or as many as went well."""
    chance = random.Random(seed)
    rounds: list[Round] = []
    ended = "done"
    try:
        for _ in range(count):
            rounds.append(one_round(switch, counters, chance.uniform(0.5, 1.5) * hold_seconds))
            time.sleep(chance.uniform(0.0, 0.004))
    except (RefusedError, TimeoutError) as error:
        ended = str(error)
    return {"rounds": len(rounds), "ended": ended, **summary(rounds)}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the largest; empty for no values."""
    if not values:
        return {}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "max": round(float(max(values)), 2)}


def summary(rounds: Sequence[Round]) -> dict[str, object]:
    """Microseconds of each part, and what moved behind a stop."""
    parts = {name: [row[name] / 1000 for row in map(asdict, rounds)] for name in asdict(Round(0, 0, 0, 0, 0))}
    moved = [entry.moved for entry in rounds]
    del parts["moved"]
    figures: dict[str, object] = {f"{name}_us": percentiles(values) for name, values in parts.items()}
    return {**figures, "rounds_with_progress_behind_a_stop": sum(count > 0 for count in moved)}
