"""How attempts ended, which of them count, and when the next may start."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from rowen.crds.job.offline_job_status import RideLosses
from rowen.crds.job.worker import RIDE_BROKEN, RIDE_LOST, RIDE_REFUSED, ExitCode
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import PodView

Ending = Literal["Completed", "UserError", "Failure", "Infrastructure", "Unseated", "Removed"]

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_MOST_SECONDS = 360.0
_UNSEATED = (RIDE_LOST, RIDE_BROKEN, RIDE_REFUSED)
"""Reasons of workers that lost their seat."""
_LOSSES = (RIDE_LOST, RIDE_BROKEN)
"""Those after which another attempt may do."""
_MOST_RIDE_LOSSES = 3
"""Attempts without progress that may end so: a worker counts its own engines alone."""


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
    ride_losses: RideLosses | None = None
    """Attempts that ended without an engine while the job got no further; None where there was none yet."""
    outlived: bool = False
    """Whether the engine of a running one was replaced, which is counted for the first time."""

    @property
    def ride_refused(self) -> str | None:
        """Why no engine is to compute the job any more: one has said so for good, or too many attempts lost theirs."""
        result = self.last_ended.result if self.last_ended and self.last_ending == "Unseated" else None
        if result is not None and result.reason == RIDE_REFUSED:
            return result.message
        lost = self.ride_losses.attempts if self.ride_losses else 0
        if lost < _MOST_RIDE_LOSSES:
            return None
        if self.outlived:
            return f"{lost} attempts lost their engine while the job got no further, the last as its pod was replaced"
        if result is None:
            return None
        told = f"{lost} attempts ended with {' or '.join(_LOSSES)} while the job got no further"
        return f"{told}, the last with {result.reason}: {result.message}"

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
    if native and pod.rides and pod.result is not None and pod.result.reason in _UNSEATED:
        return "Unseated"
    return "Infrastructure" if pod.disrupted else "Failure"


def attempts_of(snapshot: JobSnapshot) -> Attempts:
    """Counts attempts from what the status says and what the pods show."""
    status = snapshot.status
    native = snapshot.spec.template is None
    ended = [pod for pod in snapshot.pods if pod.ended]
    counted_before = status.counted_attempt or 0
    new = [(pod, ending_of(pod, native=native)) for pod in ended if pod.attempt > counted_before]
    newly_failed = tuple(pod for pod, ending in new if ending in ("Failure", "UserError"))
    failures = (status.failures or 0) + len(newly_failed)
    last = max(ended, key=lambda pod: pod.attempt, default=None)
    # It may be a row of theirs that ends engines, pod and all.
    outlived = [pod for pod in snapshot.pods if pod.attempt > counted_before and snapshot.outlives_its_engine(pod)]
    ending = ending_of(last, native=native) if last else None
    return Attempts(
        started=max([status.attempts or 0, *(pod.attempt for pod in snapshot.pods)]),
        counted=max([counted_before, *(pod.attempt for pod in [*ended, *outlived])]),
        failures=failures,
        newly_failed=newly_failed,
        last_ended=last,
        last_ending=ending,
        next_start=_next_start(snapshot, last, failures) if last else None,
        ride_losses=_ride_losses(
            status.ride_losses,
            [
                *_done_at_losses(pod for pod, ending in new if ending == "Unseated"),
                *(status.progress.completed if status.progress else 0 for _ in outlived),
            ],
        ),
        outlived=bool(outlived),
    )


def backoff_seconds(failures: int) -> float:
    """Seconds between a failure and the next attempt: 10, 20, 40 … up to six minutes."""
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** min(max(failures - 1, 0), 16), BACKOFF_MOST_SECONDS)


def _done_at_losses(unseated: Iterable[PodView]) -> Iterator[int]:
    """How far attempts were that say that they lost their engine."""
    results = (pod.result for pod in unseated)
    return (result.completed for result in results if result is not None and result.reason in _LOSSES)


def _ride_losses(before: RideLosses | None, completed: Iterable[int]) -> RideLosses | None:
    """With further losses, the oldest first: how far the job was at each."""
    found = before
    for done in completed:
        if found is None or done > found.completed:
            found = RideLosses(attempts=1, completed=done)
        else:
            found = RideLosses(attempts=found.attempts + 1, completed=found.completed)
    return found


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
