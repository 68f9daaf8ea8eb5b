"""For how long a rider was joined with an engine, and how far it came. Pure: no clock, no I/O."""

from dataclasses import dataclass, replace
from typing import Self

from rowen.crds.ride.messages import JobProgress
from rowen.node_agent.devices.counts import TenantCounts


@dataclass(frozen=True, slots=True)
class Account:
    """One pod's. Times in seconds, clock: monotonic."""

    joined_seconds: float = 0.0
    """Until it was joined last."""
    since: float | None = None
    """When it was joined; None: it is not."""
    reports: int = 0
    completed: int = 0
    total: int = 0
    tokens: int = 0
    """As the process that spoke last has told."""
    reported_seconds: float = 0.0
    """For how long it had been joined by then."""
    first_tokens: int = 0
    first_seconds: float = 0.0
    """The same when that process spoke first: what was before is another one's."""

    def _seconds(self, now: float) -> float:
        return self.joined_seconds + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def joined(self, now: float) -> Self:
        """With an engine, from now on."""
        return self if self.since is not None else replace(self, since=now)

    def parted(self, now: float) -> Self:
        """From it."""
        return replace(self, joined_seconds=self._seconds(now), since=None)

    def progressed(self, progress: JobProgress, now: float) -> Self:
        """It says how far it is. One that has done less than before is another process."""
        seconds = self._seconds(now)
        known = replace(
            self,
            reports=self.reports + 1,
            completed=progress.completed,
            total=progress.total,
            tokens=progress.tokens,
            reported_seconds=seconds,
        )
        if self.reports and progress.tokens >= self.tokens:
            return known
        return replace(known, first_tokens=progress.tokens, first_seconds=seconds)

    def counts(self, now: float) -> TenantCounts:
        """As of a pod behind the gate: tokens and time between what it reported first and last."""
        seconds = self._seconds(now)
        return TenantCounts(
            attached=int(self.since is not None),
            open_seconds=seconds,
            preemptions=0,
            backstops=0,
            reports=self.reports,
            completed=self.completed,
            total=self.total,
            tokens=self.tokens - self.first_tokens,
            granted_seconds=self.reported_seconds - self.first_seconds,
        )
