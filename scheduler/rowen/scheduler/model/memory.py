"""What memory that comes and goes is worth to a job: the memory factor (Valve, section 6).

    M(w, n) = mean_t φ_w(m_n(t)) − κ_w · mean_t max(0, m_w − m_n(t)) / m_w,    clipped to [0, 1]

A node reports its memory over time as equal parts of the time, ordered by memory (`DeviceHarvest.available_bytes`), so
both means are plain means over these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Point = tuple[float, float]
"""Bytes, and the throughput with so much memory all the time, over the throughput with all the job wants."""


@dataclass(frozen=True)
class MemoryCurve:
    """φ: throughput over throughput alone by memory, straight between the points, level beyond the first and last."""

    points: tuple[Point, ...]
    """By memory, at least one; fractions in [0, 1] that do not fall."""

    def at(self, available: ArrayLike) -> NDArray[np.float64]:
        """φ of each of the amounts, bytes."""
        worth: NDArray[np.float64] = np.interp(np.asarray(available, float), *self._axes)
        return worth

    @cached_property
    def _axes(self) -> NDArray[np.float64]:
        """Bytes and fractions of the points."""
        return np.array(self.points, float).T.copy()


@dataclass(frozen=True)
class MemoryNeed:
    """What a job on one device does with memory of the pool. It is a key of many look-ups, so its hash is kept."""

    curve: MemoryCurve
    want_bytes: int
    """m: what it takes when it may; 0 where it needs none."""
    loss: float = 0.0
    """κ: throughput that each unit of shortfall costs in addition, for work that has to be done again."""
    doubt: float = 0.0
    """Standard deviation of what the job loses by short memory, over that loss: 0 where φ is known."""

    def __hash__(self) -> int:
        """Worked out once."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.curve, self.want_bytes, self.loss, self.doubt))

    def within(self, most_bytes: int) -> "MemoryNeed":
        """On a device that could not give it more than so much even if it were alone: there that is all it wants."""
        if most_bytes >= self.want_bytes:
            return self
        most = max(0, most_bytes)
        whole = float(self.curve.at(most))
        points = [(memory, worth / whole) for memory, worth in self.curve.points if memory < most and whole > 0.0]
        curve = MemoryCurve((*points, (float(most), 1.0 if whole > 0.0 else 0.0)))
        return MemoryNeed(curve, most, self.loss, self.doubt)


def linear_need(want_bytes: int, loss: float = 0.0, doubt: float = 0.0) -> MemoryNeed:
    """A job that is as fast as the part of `want_bytes` (above zero) that it has: sequences at a time, mostly."""
    return MemoryNeed(MemoryCurve(((0.0, 0.0), (float(want_bytes), 1.0))), want_bytes, loss, doubt)


def memory_factors(need: MemoryNeed, available: NDArray[Any], shares: ArrayLike = 1.0) -> NDArray[np.float64]:
    """M of many devices: a row of `available` bytes each, ordered or not; `shares`: the job's part of it, in (0, 1]."""
    return _worth(need, np.maximum(0.0, np.asarray(available, float)) * np.asarray(shares, float)[..., None], -1)


def memory_bounds(need: MemoryNeed, outlines: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that M of many devices can be, but for rounding; `outlines`: a row for each part of the time.

    It has the most bytes that each device lent then. So few sums over long rows take a tenth of many over short ones.
    """
    return _worth(need, np.maximum(0.0, outlines) * shares, 0)


def _worth(need: MemoryNeed, amounts: NDArray[np.float64], over_time: int) -> NDArray[np.float64]:
    """`over_time`: the axis that is the time."""
    count = amounts.shape[over_time]
    # Sums over the count are what `mean` comes to, in half the time: most often these are few numbers.
    worth: NDArray[np.float64] = np.add.reduce(need.curve.at(amounts), axis=over_time) / count
    if need.loss > 0.0 and need.want_bytes > 0:
        short = np.maximum(0.0, 1.0 - amounts / need.want_bytes)
        worth = worth - need.loss * (np.add.reduce(short, axis=over_time) / count)
    clipped: NDArray[np.float64] = np.minimum(1.0, np.maximum(0.0, worth))
    return clipped


def memory_factor(need: MemoryNeed | None, available: Sequence[int] | NDArray[np.float64], share: float = 1.0) -> float:
    """M of one device; 1 for a job without memory of the pool, and where memory does not change its owner."""
    if need is None or not len(available):
        return 1.0
    return float(memory_factors(need, np.asarray(available, float), share))


def memory_doubts(need: MemoryNeed, factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """`memory_doubt` of many devices."""
    found: NDArray[np.float64] = np.zeros_like(factors)
    np.divide(need.doubt * (1.0 - factors), factors, out=found, where=factors > 0.0)
    return found


def memory_doubt(need: MemoryNeed | None, factor: float) -> float:
    """Relative standard deviation of M: what is not known of φ matters only where memory is short."""
    if need is None or factor <= 0.0:
        return 0.0
    return need.doubt * (1.0 - factor) / factor
