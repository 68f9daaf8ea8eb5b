"""Jobs of the simulation: what has become of each, and those that run."""

from dataclasses import dataclass, field

from rowen.scheduler.snapshot import JobView, Placement, PodView
from rowen.simulator.jobs import Job


@dataclass(slots=True)
class Progress:
    """A job from its arrival on. Times in seconds."""

    job: Job
    view: JobView
    tokens: float = 0.0
    placed: float | None = None
    """When it was placed first."""
    finished: float | None = None
    evictions: dict[str, int] = field(default_factory=dict)
    """Placements that it lost, by reason."""

    @property
    def devices(self) -> int:
        """On which it runs."""
        return self.job.kind.devices

    def throughput(self, now: float) -> float | None:
        """Since it was placed first, over its throughput alone; None where it never was."""
        if self.placed is None:
            return None
        seconds = (now if self.finished is None else self.finished) - self.placed
        return self.tokens / (self.job.kind.tokens_per_second * seconds) if seconds > 0 else None

    def refused(self, now: float, dwell_seconds: float) -> bool:
        """Whether it has an SLA and was never placed, though it has been there for `dwell_seconds`."""
        return self.job.sla is not None and self.placed is None and now - self.job.arrival >= dwell_seconds

    def kept(self, now: float, dwell_seconds: float) -> bool | None:
        """Whether it got what its SLA says since it was placed first; None without an SLA.

        None too where that is less than `dwell_seconds` ago, or was before it finished: nobody judges it so early.
        """
        if self.job.sla is None or self.placed is None:
            return None
        measured, seconds = self.throughput(now), (now if self.finished is None else self.finished) - self.placed
        return None if measured is None or seconds < dwell_seconds else measured >= self.job.sla


@dataclass(slots=True)
class Run:
    """A job on its devices."""

    progress: Progress
    placement: Placement
    pod: PodView
    devices: tuple[int, ...]
    """By their numbers in the whole fleet."""
    services: tuple[int, ...]
    """Those that share them, each once."""
    ready: float
    """When it makes its first token at the earliest; seconds."""
    tokens: float = 0.0
    """Since it was placed."""
    granted: float = 0.0
    """Seconds in which it might run since it was ready."""
