"""Solo throughput of workload classes, and how far off their predictions have been."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

from pydantic import Field

ProfileKey = tuple[str, str]
"""Workload class and device type."""

MOST_PROFILES = 2000
_WEIGHT_LIMIT = 600.0
_FORGET = 0.1
_BOUND_LEAST, _BOUND_MOST = 0.02, 0.5


@dataclass(frozen=True, slots=True)
class Profile:
    """Throughput alone on a device: tokens per granted second."""

    tokens_per_second: Annotated[float, Field(gt=0, le=1e12)]
    weight: Annotated[float, Field(ge=0, le=_WEIGHT_LIMIT)]
    """Granted seconds behind the figure; limited, so that it follows a changed workload."""
    updated: Annotated[float, Field(allow_inf_nan=False)]
    """Unix time of the last change."""


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Running mean and variance of (predicted - measured) / predicted of a workload class.

    The start is a prior: no bias, a standard deviation of 5 %.
    """

    mean: Annotated[float, Field(ge=-1, le=1)] = 0.0
    variance: Annotated[float, Field(ge=0, le=4)] = 0.0025
    samples: Annotated[int, Field(ge=0, le=10**12)] = 0

    @property
    def bound(self) -> float:
        """Relative shortfall that a promise has to survive: mean + 2 standard deviations, in [0.02, 0.5]."""
        return min(_BOUND_MOST, max(_BOUND_LEAST, self.mean + 2.0 * sqrt(self.variance)))

    def margin(self, sla: float) -> float:
        """What a prediction must have above the SLA, so that it still holds after the shortfall."""
        return sla * self.bound / (1.0 - self.bound)

    def updated(self, predicted: float, measured: float) -> "PredictionError":
        """With one more pair of fractions; old ones fade. `predicted` is above zero."""
        error = max(-1.0, min(1.0, (predicted - measured) / predicted))
        step = max(_FORGET, 1.0 / (self.samples + 2))
        delta = error - self.mean
        return PredictionError(
            mean=self.mean + step * delta,
            variance=(1.0 - step) * (self.variance + step * delta * delta),
            samples=self.samples + 1,
        )


def refined(profile: Profile | None, tokens: float, granted: float, now: float) -> Profile:
    """The profile with `tokens` more in `granted` more seconds (above zero)."""
    if profile is None:
        return Profile(tokens / granted, min(granted, _WEIGHT_LIMIT), now)
    weight = profile.weight + granted
    rate = (profile.tokens_per_second * profile.weight + tokens) / weight
    return Profile(rate, min(weight, _WEIGHT_LIMIT), now)


def newest(profiles: Mapping[ProfileKey, Profile]) -> dict[ProfileKey, Profile]:
    """The profiles that changed last, newest first, as many as are kept."""
    return dict(sorted(profiles.items(), key=lambda item: (-item[1].updated, item[0]))[:MOST_PROFILES])
