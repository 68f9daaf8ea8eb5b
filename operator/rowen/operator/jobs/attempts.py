"""How attempts ended, which of them count, and when the next may start."""

from dataclasses import dataclass, replace
from typing import Literal

from rowen.crds.job.worker import RIDE_LOST, RIDE_REFUSED, ExitCode
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import PodView

Ending = Literal["Completed", "UserError", "Failure", "Infrastructure", "Unseated", "Removed"]

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_MOST_SECONDS = 360.0


@dataclass(frozen=True)
class Attempts:
    """The job's attempts so far."""

    started: int
    """Pods started."""
    counted: int
    """Last attempt whose end has been counted."""
    failures: int
    """Attempts that count against backoffLimit."""
    newly_failed: tuple[PodView, ...]
    """Attempts whose failure is counted for the first time."""
    last_ended: PodView | None
    """The latest attempt that ended and is still there to be read."""
    last_ending: Ending | None
    next_start: float | None
    """Unix time before which no further attempt may start; None where it may at once."""

    @property
    def ride_refused(self) -> str | None:
        """What an engine said that refused for good to compute the job."""
        result = self.last_ended.result if self.last_ended and self.last_ending == "Unseated" else None
        return result.message if result and result.reason == RIDE_REFUSED else None

    def with_failed_start(self, pod: PodView | None) -> "Attempts":
        """Counts a start that failed by the job's own fault, and its pod, so that its end is not counted as well."""
        return replace(self, failures=self.failures + 1, counted=max(self.counted, pod.attempt if pod else 0))


def ending_of(pod: PodView, *, native: bool) -> Ending:
    """How an ended pod ended. Only Rowen's own workers (`native`) follow the exit codes' contract.

    Only one that had a seat can have lost it: whatever else says so fails as any other.
    """
    said_completed = pod.result is not None and pod.result.reason == "Completed"
    if pod.phase == "Succeeded" and (said_completed or not pod.deleting):
        return "Completed"
    if native and pod.exit_code == ExitCode.USER_ERROR:
        return "UserError"
    if pod.deleting:
        return "Removed"
    if native and pod.rides and pod.result is not None and pod.result.reason in (RIDE_LOST, RIDE_REFUSED):
        return "Unseated"
    return "Infrastructure" if pod.disrupted else "Failure"


def attempts_of(snapshot: JobSnapshot) -> Attempts:
    """Counts attempts from what the status says and what the pods show."""
    status = snapshot.status
    native = snapshot.spec.template is None
    ended = [pod for pod in snapshot.pods if pod.ended]
    counted_before = status.counted_attempt or 0
    newly_failed = tuple(
        pod
        for pod in ended
        if pod.attempt > counted_before and ending_of(pod, native=native) in ("Failure", "UserError")
    )
    failures = (status.failures or 0) + len(newly_failed)
    last = max(ended, key=lambda pod: pod.attempt, default=None)
    ending = ending_of(last, native=native) if last else None
    return Attempts(
        started=max([status.attempts or 0, *(pod.attempt for pod in snapshot.pods)]),
        counted=max([counted_before, *(pod.attempt for pod in ended)]),
        failures=failures,
        newly_failed=newly_failed,
        last_ended=last,
        last_ending=ending,
        next_start=_next_start(snapshot, last, failures) if last else None,
    )


def backoff_seconds(failures: int) -> float:
    """Seconds between a failure and the next attempt: 10, 20, 40 … up to six minutes."""
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** min(max(failures - 1, 0), 16), BACKOFF_MOST_SECONDS)


def _next_start(snapshot: JobSnapshot, last: PodView, failures: int) -> float | None:
    if last.finished_at is None:
        return None
    ending = ending_of(last, native=snapshot.spec.template is None)
    if ending == "Failure":
        return last.finished_at + backoff_seconds(failures)
    if ending == "Infrastructure":
        before = [pod for pod in snapshot.pods if pod.disrupted and pod.attempt <= last.attempt]
        return last.finished_at + backoff_seconds(sum(pod.assignment == last.assignment for pod in before))
    return None
