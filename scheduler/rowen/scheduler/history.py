"""What the scheduler carries from one pass to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from rowen.scheduler.device import DeviceKey
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.evidence import NO_FEATURES, Features
from rowen.scheduler.model.memory import MemoryNeed
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.model.profile import PredictionError, Profile, ProfileKey, class_rate, solo_rate
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.monitor.backoff import Backoff, BackoffKey
from rowen.scheduler.monitor.scoring import NOT_SCORED, Score
from rowen.scheduler.snapshot import JobKey, JobView


@dataclass(frozen=True, slots=True)
class Sample:
    """A tenant's counters in a report."""

    time: float
    """The node's own time of the report: only differences count."""
    tokens: int
    granted: float


@dataclass(frozen=True, slots=True)
class Track:
    """What has been seen of one job on its assignment."""

    assignment: str
    pod: str
    workload: str
    device_types: tuple[str, ...]
    """Of the devices of its assignment, each once: a job in lockstep may have several types."""
    since: float
    """When the assignment was made."""
    time: float
    """When the report that was read last was heard."""
    tokens: int
    granted: float
    samples: tuple[Sample, ...] = ()
    """Within the monitor's window, oldest first; they start with the first token."""
    unlearned_tokens: float = 0.0
    unlearned_granted: float = 0.0
    """Not yet in the profile; granted seconds are this job's part of them."""
    unlearned_features: Features = NO_FEATURES
    """Of the memory that there was in these seconds: sums over them."""
    unlearned_alone: bool = True
    """Whether it was the only tenant in all of them."""
    node: str = ""
    tenants: int = 1
    """Most tenants on any of its devices."""
    beside: float = 0.0
    """Since when they have been so many."""
    score: Score = NOT_SCORED
    """What came of the promise that its assignment was made for."""
    expected: float | None = None
    """What the last report lets expect."""
    drift: float = 0.0
    """Seconds of the promised throughput that reports have fallen short of, beyond what the margin covers."""
    shortfall: float = 0.0
    """Seconds of the throughput of its SLA that are missing."""
    tokens_per_second: float | None = None
    fraction: float | None = None
    """Measured over solo; None while the window is not full or the solo throughput not known."""
    granted_part: float | None = None
    """Its part of the window in which it could run."""
    speed: float | None = None
    """Tokens per second that it could run, over solo: below 1 where something slows it down meanwhile."""


@dataclass(frozen=True)
class History:
    """Memory of the scheduler. Profiles, errors and back-offs outlive a restart.

    It is bounded by what exists (jobs, nodes, devices) and by the number of profiles that are kept.
    """

    profiles: Mapping[ProfileKey, Profile] = field(default_factory=dict)
    errors: Mapping[str, PredictionError] = field(default_factory=dict)
    backoffs: Mapping[BackoffKey, Backoff] = field(default_factory=dict)
    tracks: Mapping[JobKey, Track] = field(default_factory=dict)
    absences: Mapping[DeviceKey, float] = field(default_factory=dict)
    """Since when a device is without an attached engine."""
    time: float = 0.0
    """When the reports were read last, Unix seconds."""

    def error(self, workload: str) -> PredictionError:
        """The predictor's error for a workload class, as of then."""
        return self.errors.get(workload, PredictionError()).faded(self.time)

    def promise(self, workload: str, sla: float | None) -> Promise:
        """What a prediction has to clear for a job of that class. Jobs that are alike get the same object."""
        if sla is None:
            return NO_PROMISE
        key = workload, sla
        if key not in self._promises:
            self._promises[key] = Promise(sla, self.error(workload))
        return self._promises[key]

    def appetite(self, job: JobView) -> Appetite | None:
        """What the job does with memory of the pool, by all that is known; None where it may have none.

        Jobs that are alike get the same object.
        """
        if job.need is None:
            return None
        key = job.workload, job.memory, job.need
        if key not in self._appetites:
            self._appetites[key] = Appetite(job.workload, job.memory, job.need, self.profiles)
        return self._appetites[key]

    def backed_off(self, new: Mapping[BackoffKey, Backoff]) -> "History":
        """With these back-offs in place of their former ones. Each call copies all: few calls with many."""
        return replace(self, backoffs={**self.backoffs, **new})

    def backed_off_as(self, key: BackoffKey, before: Mapping[BackoffKey, Backoff]) -> "History":
        """With that back-off as it is in `before`, or without it."""
        others = {other: backoff for other, backoff in self.backoffs.items() if other != key}
        return replace(self, backoffs=others | ({key: before[key]} if key in before else {}))

    @cached_property
    def _promises(self) -> dict[tuple[str, float], Promise]:
        return {}

    @cached_property
    def _appetites(self) -> dict[tuple[str, int, MemoryNeed], Appetite]:
        return {}

    def solo(self, workload: str, *device_types: str) -> float | None:
        """Tokens per second alone on devices of these types; None while it is not known of each."""
        return solo_rate(self.profiles, workload, device_types)

    def predicted(self, workload: str, prediction: Prediction, *device_types: str) -> float | None:
        """Tokens per second that a prediction on devices of these types comes to; None while that is not known.

        Of riders whose throughput alone is not known it is their part of what their class makes in engines.
        """
        solo = self.solo(workload, *device_types)
        if solo is not None:
            return solo * prediction.fraction
        made = class_rate(self.profiles, workload, device_types)
        return None if made is None else made * prediction.sharing

    def profiled(self, workload: str) -> bool:
        """Whether the solo throughput of the class is known on any type of device."""
        return workload in self.rates

    @cached_property
    def rates(self) -> Mapping[str, Mapping[str, float]]:
        """By workload class and device type: the solo throughput over that on the type that suits the class best."""
        solo: dict[str, dict[str, float]] = {}
        for (workload, type_), profile in sorted(self.profiles.items()):
            solo.setdefault(workload, {})[type_] = profile.tokens_per_second
        return {
            workload: {type_: rate / max(of_types.values()) for type_, rate in of_types.items()}
            for workload, of_types in solo.items()
        }
