"""What decides between places of equal gain: idleness that grows, and lengths that fit (LeMix, section IV-C).

In the cluster a job stays for hours, so that II of a single task says nothing; what lasts is where idle time is headed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TREND_STEP_PER_HOUR = 0.05
"""Trends closer than this, in idle fraction, are equal: one hour does not tell them from noise."""
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class IdleSample:
    """What a node reported."""

    time: float
    """In seconds."""
    idle: float
    """Fraction, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Tie:
    """One of several equal places."""

    trend_per_hour: float
    consistency: float
    """LC of the job's sequence length with what the node has had, in 1/token; 0 where either is unknown."""

    @property
    def rank(self) -> tuple[int, float]:
        """Best first."""
        return -round(self.trend_per_hour / TREND_STEP_PER_HOUR), -self.consistency


def idleness_trend(samples: Sequence[IdleSample]) -> float:
    """Slope of the idle fraction per hour, by least squares; 0 where all samples are of one time."""
    if not samples:
        return 0.0
    middle = sum(sample.time for sample in samples) / len(samples)
    idle = sum(sample.idle for sample in samples) / len(samples)
    spread = sum((sample.time - middle) ** 2 for sample in samples)
    if spread == 0.0:
        return 0.0
    return _HOUR_SECONDS * sum((sample.time - middle) * (sample.idle - idle) for sample in samples) / spread
