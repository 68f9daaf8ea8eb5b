"""The service's latency objective, as its OnlineService states it."""

import math
from dataclasses import dataclass

from rowen.crds.base import duration_seconds
from rowen.crds.service.online_service import LatencyTarget, Slo

# Requests below which a group is not compared, whatever the percentile.
_FEWEST = 20


@dataclass(frozen=True)
class Target:
    """A percentile of a latency, and what it may be at most."""

    percentile: int
    seconds: float

    @classmethod
    def from_spec(cls, spec: LatencyTarget) -> "Target":
        """The target that a spec names."""
        return cls(spec.percentile, duration_seconds(spec.target))

    @property
    def fewest(self) -> int:
        """Requests without which the percentile is the word of a few."""
        return max(_FEWEST, math.ceil(100 / (100 - self.percentile)))


@dataclass(frozen=True)
class Objective:
    """What the service promises its users."""

    ttft: Target
    tpot: Target

    @classmethod
    def from_spec(cls, spec: Slo) -> "Objective":
        """The objective that a spec names."""
        return cls(Target.from_spec(spec.ttft), Target.from_spec(spec.tpot))
