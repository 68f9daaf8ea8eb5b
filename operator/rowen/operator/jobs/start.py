"""How the start of an assignment goes, and when it has lasted too long.

An assignment holds its devices whether a pod runs or not. So a start that does not come off is told in the status,
once for each assignment, and the scheduler withdraws the assignment.
"""

from dataclasses import dataclass

from rowen.crds.job.offline_job_status import Assignment, StartFailure
from rowen.crds.job.worker import RIDE_LOST
from rowen.operator.jobs.attempts import Attempts, attempts_of
from rowen.operator.jobs.delay import Delay, Place, place_of
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start_wait import Cause, StartWait, advanced
from rowen.operator.pods.view import PodView
from rowen.operator.say import Say

PROBLEM_SECONDS = 120.0
"""Longest start after somebody has first said what is in its way, while that is the same."""


@dataclass(frozen=True)
class Start:
    """How far the start of the job's assignment is."""

    assignment: Assignment | None
    """Where the job may run; None while it is suspended."""
    pod: PodView | None
    """The assignment's pod, while it lives."""
    running: Say
    """The Running condition; reason Starting without a pod means: make one now."""
    failure: StartFailure | None
    """The last start that failed, until another assignment is there or its tenant runs after all."""
    failed_now: bool = False
    """Whether `failure` is told for the first time."""
    left_seconds: float | None = None
    """Time to listen until the start has failed if nothing happens."""


def start_of(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Start:
    """How the start stands at `now` (Unix seconds)."""
    place = place_of(snapshot, attempts, now)
    told = told_failure(snapshot)
    if place.running.status == "True":
        return Start(place.assignment, place.pod, place.running, None)
    if place.assignment is None:
        return Start(None, place.pod, place.running, told)
    if told:
        return Start(place.assignment, place.pod, _not_started(told, place.assignment), told)
    unseated = _unseated(attempts, place)
    if unseated:
        return Start(place.assignment, None, _not_started(unseated, place.assignment), unseated, failed_now=True)
    left = _left_seconds(snapshot, place.delay, now)
    if place.delay is None or left is None or left >= 0:
        return Start(place.assignment, place.pod, place.running, None, left_seconds=left)
    failure = StartFailure(
        assignment=place.assignment.id,
        reason=place.delay.reason,
        message=place.delay.message[:1024],
        cause=_cause(snapshot, place.delay),
    )
    return Start(place.assignment, place.pod, _not_started(failure, place.assignment), failure, failed_now=True)


def told_failure(snapshot: JobSnapshot) -> StartFailure | None:
    """The start failure in the status, unless another assignment is there."""
    told, assignment = snapshot.status.start_failure, snapshot.assignment
    return told if told and (assignment is None or assignment.id == told.assignment) else None


def waited(snapshot: JobSnapshot, before: StartWait | None, now: float, listened: float) -> StartWait | None:
    """The wait for the assignment's tenant at `now`, after what it was before; None where nothing is waited for.

    `listened` is `Listening.seconds` at `now`.
    """
    place = place_of(snapshot, attempts_of(snapshot), now)
    if place.assignment is None or place.running.status == "True":
        return None
    ran = max((pod.attempt for pod in snapshot.pods if pod.started_at is not None), default=0)
    obstacle, cause = (place.delay.obstacle, place.delay.cause) if place.delay else (None, None)
    return advanced(before, place.assignment.id, ran, listened, idle=place.idle, obstacle=obstacle, cause=cause)


def _unseated(attempts: Attempts, place: Place) -> StartFailure | None:
    """That the assignment's engine does not compute the job, as its worker said: another attempt would wait in vain."""
    last, assignment = attempts.last_ended, place.assignment
    if attempts.outlived and attempts.ride_refused and assignment is not None:
        message = attempts.ride_refused[:1024]
        return StartFailure(assignment=assignment.id, reason=RIDE_LOST, message=message, cause="Node")
    if last is None or last.result is None or assignment is None or place.pod is not None:
        return None
    if attempts.last_ending != "Unseated" or last.assignment != assignment.id:
        return None
    return StartFailure(
        assignment=assignment.id, reason=last.result.reason, message=last.result.message[:1024], cause="Node"
    )


def _left_seconds(snapshot: JobSnapshot, delay: Delay | None, now: float) -> float | None:
    """Time to listen until the delay has lasted too long, below 0 once it has.

    None where it cannot, or while nobody listens: what is known of the pod may be out of date.
    """
    if delay is None or snapshot.wait is None or snapshot.listening is None:
        return None
    longest = snapshot.start_deadline_seconds
    begun, seconds = snapshot.wait.since, longest
    if delay.obstacle:
        begun, seconds = snapshot.wait.problem_since, min(PROBLEM_SECONDS, longest)
    return None if begun is None else max(begun + seconds - snapshot.listening.seconds, delay.not_before - now)


def _cause(snapshot: JobSnapshot, delay: Delay) -> Cause:
    """What the words do not say now they may have said before. A fault that nobody names is not counted."""
    return delay.cause or (snapshot.wait.cause if snapshot.wait else None) or "Node"


def _not_started(failure: StartFailure, assignment: Assignment) -> Say:
    where = f"assignment {assignment.id} on node {assignment.node}"
    return Say("False", "NotStarted", f"{where}: {failure.reason}: {failure.message}")
