"""What the scheduler carries from one pass to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowen.scheduler.backoff import Backoff, BackoffKey
from rowen.scheduler.profile import PredictionError, Profile, ProfileKey
from rowen.scheduler.snapshot import DeviceKey, JobKey


@dataclass(frozen=True, slots=True)
class Sample:
    """A tenant's counters in a report."""

    time: float
    """The node's own time of the report: only differences count."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Track:
    """What has been seen of one job on its assignment."""

    assignment: str
    pod: str
    workload: str
    device_type: str
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
    tenants: int = 1
    """Most tenants on any of its devices."""
    predicted: float = 0.0
    """Prediction at the start of the window."""
    predicted_at: float = 0.0
    violating_since: float | None = None
    tokens_per_second: float | None = None
    fraction: float | None = None
    """Measured over solo; None while the window is not full or the solo throughput not known."""


@dataclass(frozen=True, slots=True)
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

    def error(self, workload: str) -> PredictionError:
        """The predictor's error for a workload class."""
        return self.errors.get(workload, PredictionError())

    def need(self, workload: str, sla: float | None) -> float:
        """Least prediction at which the SLA is promised; 0 for best effort."""
        return 0.0 if sla is None else sla + self.error(workload).margin(sla)

    def solo(self, workload: str, device_type: str) -> float | None:
        """Tokens per second alone on such a device; None while it is not known."""
        profile = self.profiles.get((workload, device_type))
        return profile.tokens_per_second if profile else None

    def profiled(self, workload: str) -> bool:
        """Whether the solo throughput of the class is known on any type of device."""
        return any(key[0] == workload for key in self.profiles)
