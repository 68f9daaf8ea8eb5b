"""Solo throughput of workload classes, and how far off their predictions have been."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rowen.scheduler.model.evidence import MemoryEvidence
from rowen.scheduler.model.rider import own_class

ProfileKey = tuple[str, str]
"""Workload class and device type."""

MOST_PROFILES = 2000
MOST_WITNESSES = 6
FROM_SPEC = "spec"
"""The witness for what a job's spec says."""
_WEIGHT_LIMIT = 600.0
_SMOOTH_SECONDS = 60.0
"""Granted seconds over which a witness's rate is smoothed before its highest is taken."""
_UPPER = 0.75
_FRESH_SECONDS = 1800.0
"""How long a witness that is not heard any more keeps its place from a newcomer."""
_MOST_RATE = 1e12
_STEP = 0.1
"""Part of the mean and the variance that one more pair makes up."""
_PRIOR_VARIANCE = 0.0025
_HALF_LIFE_SECONDS = 3600.0
_BOUND_LEAST, _BOUND_MOST = 0.02, 0.5
_LEFT = 0.001
"""Of a throughput: what is left of former errors and is less says nothing."""
HIGHEST_SLA = 1.0 - _BOUND_LEAST
"""What leaves room for the least margin below all of a device's time."""

Rate = Annotated[float, Field(gt=0, le=_MOST_RATE)]


@dataclass(frozen=True, slots=True)
class Window:
    """What one job did on one node in some granted time."""

    witness: str
    """Names the job and the node."""
    tokens: float
    granted: float
    """Seconds, above zero; the job's part of them where the device was shared."""
    alone: bool
    """Whether it was the only tenant throughout."""

    @property
    def rate(self) -> float:
        """Tokens per granted second; a tenant may say any number."""
        return min(_MOST_RATE, self.tokens / self.granted)


@dataclass(frozen=True, slots=True)
class Witness:
    """How fast one job was on one node, at its best."""

    name: Annotated[str, Field(max_length=64)]
    rate: Rate
    """Tokens per granted second: the highest that it was for a minute. What slows it down does not lower it."""
    smooth: Rate
    """The same of late."""
    weight: Annotated[float, Field(ge=0, le=_WEIGHT_LIMIT)]
    """Granted seconds behind it, up to a limit."""
    alone: bool
    heard: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Unix time of its last window."""

    def updated(self, window: Window, now: float) -> "Witness":
        """With one more window of the same kind. Its first minute is a plain mean: nothing is at its best yet."""
        step = window.granted / (min(self.weight, _SMOOTH_SECONDS) + window.granted)
        smooth = self.smooth + step * (window.rate - self.smooth)
        rate = max(self.rate, smooth) if self.weight >= _SMOOTH_SECONDS else smooth
        weight = min(_WEIGHT_LIMIT, self.weight + window.granted)
        return replace(self, rate=rate, smooth=smooth, weight=weight, heard=now)

    def worth(self, now: float) -> tuple[bool, bool, float]:
        """What it goes by where there are too many: who is still heard, then who was alone, then the weight."""
        return now - self.heard <= _FRESH_SECONDS, self.alone, self.weight


@dataclass(frozen=True, slots=True)
class Profile:
    """Throughput alone on a device: tokens per granted second."""

    tokens_per_second: Rate
    weight: Annotated[float, Field(ge=0, le=_WEIGHT_LIMIT)]
    """Granted seconds behind the figure, up to a limit."""
    updated: Annotated[float, Field(allow_inf_nan=False)]
    """Unix time of the last change."""
    witnesses: Annotated[tuple[Witness, ...], Field(max_length=MOST_WITNESSES)] = ()
    """Whose rates they are, the last one that was heard at the end."""
    memory: MemoryEvidence | None = None
    """What was seen of the throughput by memory; None where the class has none of the pool."""


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Running mean and variance of (promised - measured) / promised of a workload class.

    The variance is of shortfalls alone: a class that often makes more than was promised needs no margin for it. The
    start is a prior: no bias, a standard deviation of 5 %. What was seen fades into it with time: half in an hour. A
    class that was far off is not placed, so nothing else would tell that it no longer is.
    """

    mean: Annotated[float, Field(ge=-1, le=1)] = 0.0
    variance: Annotated[float, Field(ge=0, le=4)] = _PRIOR_VARIANCE
    time: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """As of when, Unix seconds."""

    @property
    def measured(self) -> bool:
        """Whether anything of the class is left that was measured: it fades, and never quite away."""
        return max(abs(self.mean), abs(self.deviation - sqrt(_PRIOR_VARIANCE))) >= _LEFT

    @property
    def deviation(self) -> float:
        """Relative standard deviation of the class."""
        return sqrt(self.variance)

    @property
    def bound(self) -> float:
        """Relative shortfall that a promise has to survive, as far as the class tells."""
        return self.bound_with(0.0)

    def bound_with(self, uncertainty: float) -> float:
        """The same of a prediction of that relative standard deviation: mean + 2 deviations, in [0.02, 0.5].

        The larger deviation of the two: what the factors are unsure of is part of what the class was off by.
        """
        return min(_BOUND_MOST, max(_BOUND_LEAST, self.mean + 2.0 * max(sqrt(self.variance), uncertainty)))

    def bounds_with(self, uncertainties: NDArray[np.float64]) -> NDArray[np.float64]:
        """`bound_with` of many predictions."""
        shortfalls = self.mean + 2.0 * np.maximum(sqrt(self.variance), uncertainties)
        found: NDArray[np.float64] = np.minimum(_BOUND_MOST, np.maximum(_BOUND_LEAST, shortfalls))
        return found

    def margin(self, sla: float, uncertainty: float = 0.0) -> float:
        """What a prediction must have above the SLA, so that it still holds after the shortfall."""
        bound = self.bound_with(uncertainty)
        return sla * bound / (1.0 - bound)

    def faded(self, now: float) -> "PredictionError":
        """As of a later time, Unix seconds."""
        if now <= self.time:
            return self
        keep = 0.5 ** ((now - self.time) / _HALF_LIFE_SECONDS)
        return PredictionError(keep * self.mean, _PRIOR_VARIANCE + keep * (self.variance - _PRIOR_VARIANCE), now)

    def updated(self, predicted: float, measured: float, now: float, weight: float = 1.0) -> "PredictionError":
        """With one more pair of fractions, `weight` of a whole one; older ones fade. `predicted` is above zero."""
        before, step = self.faded(now), _STEP * weight
        delta = max(-1.0, min(1.0, (predicted - measured) / predicted)) - before.mean
        short = max(0.0, delta)
        variance = (1.0 - step) * (before.variance + step * short * short)
        return PredictionError(before.mean + step * delta, variance, before.time)


def given(tokens_per_second: float, now: float) -> Profile:
    """What a job's spec says: it counts until anything was measured."""
    witness = Witness(FROM_SPEC, tokens_per_second, tokens_per_second, 0.0, alone=True, heard=now)
    return Profile(tokens_per_second, 0.0, now, (witness,))


def refined(profile: Profile | None, window: Window, now: float) -> Profile:
    """The profile with one more window.

    What was known stands until a witness has been heard for a minute. The throughput is the upper quartile of the
    witnesses': one that is slowed down where it is does not lower it, and one that reports nonsense does not raise it
    among many. As those that are not heard any more make room, it follows a class that has become slower once most of
    the jobs and nodes that run say so.
    """
    witnesses = _heard(profile, window, now)
    sure = [witness for witness in witnesses if witness.weight >= _SMOOTH_SECONDS]
    if profile is not None and profile.weight >= _SMOOTH_SECONDS and not sure:
        return replace(profile, updated=now, witnesses=witnesses)
    rates = sorted(witness.rate for witness in sure or witnesses if witness.alone)
    rates = rates or sorted(witness.rate for witness in sure or witnesses)
    weight = max(witness.weight for witness in witnesses)
    memory = profile.memory if profile is not None else None
    return Profile(rates[ceil(_UPPER * len(rates)) - 1], weight, now, witnesses, memory)


def _heard(profile: Profile | None, window: Window, now: float) -> tuple[Witness, ...]:
    """The witnesses with the window. One that was alone says nothing new while it shares; alone it starts anew.

    Of too many the one of least worth goes, which may be the newcomer: who takes turns is never known for a minute.
    """
    before = {witness.name: witness for witness in _witnesses(profile) if witness.name != FROM_SPEC}
    old = before.pop(window.witness, None)
    if old is not None and old.alone == window.alone:
        new = old.updated(window, now)
    elif old is not None and old.alone:
        new = replace(old, heard=now)
    else:
        weight = min(_WEIGHT_LIMIT, window.granted)
        new = Witness(window.witness, window.rate, window.rate, weight, window.alone, now)
    if len(before) == MOST_WITNESSES:
        least = min((new, *before.values()), key=lambda witness: witness.worth(now))
        if least is new:
            return tuple(before.values())
        del before[least.name]
    return (*before.values(), new)


def _witnesses(profile: Profile | None) -> tuple[Witness, ...]:
    """Those of the profile; one that has none, as an older release stored it, speaks for itself."""
    if profile is None or profile.witnesses:
        return profile.witnesses if profile is not None else ()
    rate = profile.tokens_per_second
    return (Witness("", rate, rate, profile.weight, alone=True),)


def solo_rate(profiles: Mapping[ProfileKey, Profile], workload: str, device_types: Sequence[str]) -> float | None:
    """Tokens per second alone on devices of these types; None while it is not known of each.

    Of jobs that ride it is that of the same jobs by themselves: what riders make is no throughput alone.
    """
    return class_rate(profiles, own_class(workload), device_types)


def class_rate(profiles: Mapping[ProfileKey, Profile], workload: str, device_types: Sequence[str]) -> float | None:
    """What jobs of the class were measured to make, of riders all of an engine together: tokens per second.

    The slowest of the types sets the pace in lockstep. None while it is not known of each.
    """
    known = [profiles.get((workload, type_)) for type_ in device_types]
    rates = [profile.tokens_per_second for profile in known if profile is not None]
    return min(rates) if rates and len(rates) == len(known) else None


def newest(profiles: Mapping[ProfileKey, Profile]) -> dict[ProfileKey, Profile]:
    """The profiles that changed last, newest first, as many as are kept."""
    return dict(sorted(profiles.items(), key=lambda item: (-item[1].updated, item[0]))[:MOST_PROFILES])
