"""How the start of an assignment goes, what stands against it, and when that has lasted too long.

An assignment holds its devices whether a pod runs or not. So a start that does not come off is told in the status,
once for each assignment, and the scheduler withdraws the assignment.
"""

import re
from dataclasses import dataclass

from rowen.crds.common import find_condition
from rowen.crds.offline_job import Assignment, StartFailure
from rowen.operator.decision import Refusal
from rowen.operator.job_attempts import Attempts
from rowen.operator.job_conditions import describe_end, running_of, waiting
from rowen.operator.job_pod import pod_name
from rowen.operator.job_snapshot import JobSnapshot
from rowen.operator.pods import PodView
from rowen.operator.say import Say
from rowen.operator.timestamps import unix, unix_or_none

PROBLEM_SECONDS = 120.0
"""Longest start where somebody has said what is wrong with it."""

# What the kubelet says of a container when the job asks for something that cannot be had.
_OWN_PROBLEMS = frozenset(
    {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
     "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "PostStartHookError", "RunContainerError"}
)  # fmt: skip
_OBSTACLES = ("Stopping", "NameTaken", "PodForbidden", "PodRefused")
_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")


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
    """The last start that failed, until another assignment is there."""
    failed_now: bool = False
    """Whether `failure` is told for the first time."""
    due: float | None = None
    """Unix time after which the start has failed if nothing happens."""


@dataclass(frozen=True)
class _Delay:
    """Why no pod runs yet."""

    reason: str
    message: str
    seconds: float
    """How long it may last."""
    own: bool = False
    """Whether the cause is the job's own."""


def start_of(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Start:
    """How the start stands at `now` (Unix seconds)."""
    assignment = None if snapshot.spec.suspend else snapshot.assignment
    pods = [pod for pod in snapshot.pods if pod.lives and assignment and pod.assignment == assignment.id]
    pod = pods[-1] if pods else None
    running = _running(snapshot, attempts, assignment, pod, now)
    told = told_failure(snapshot)
    if assignment is None or running.status == "True":
        return Start(assignment, pod, running, told)
    if told:
        return Start(assignment, pod, _not_started(told), told)
    delay = _delay(snapshot, assignment, pod, running)
    if delay is None:
        return Start(assignment, pod, running, None)
    due = _begun(snapshot, attempts, assignment, pod, now) + delay.seconds
    if now <= due:
        return Start(assignment, pod, running, None, due=due)
    failure = StartFailure(
        assignment=assignment.id, reason=delay.reason, message=delay.message[:1024], counted=delay.own
    )
    return Start(assignment, pod, _not_started(failure), failure, failed_now=True)


def told_failure(snapshot: JobSnapshot) -> StartFailure | None:
    """The start failure in the status, unless another assignment is there."""
    told, assignment = snapshot.status.start_failure, snapshot.assignment
    return told if told and (assignment is None or assignment.id == told.assignment) else None


def _not_started(failure: StartFailure) -> Say:
    return Say("False", "NotStarted", f"{failure.reason}: {failure.message}")


def _running(
    snapshot: JobSnapshot, attempts: Attempts, assignment: Assignment | None, pod: PodView | None, now: float
) -> Say:
    if snapshot.spec.suspend:
        return Say("False", "Suspended", "spec.suspend is true")
    if pod:
        return running_of(pod)
    if attempts.last_ended and attempts.next_start is not None and attempts.next_start > now:
        return waiting(attempts.last_ended, attempts.failures)
    if assignment is None:
        return Say("False", "NotPlaced", "the scheduler has not placed the job")
    return _obstacle(snapshot, assignment, now) or Say(
        "False", "Starting", f"pod {pod_name(snapshot.name, attempts.started + 1)} is starting"
    )


def _obstacle(snapshot: JobSnapshot, assignment: Assignment, now: float) -> Say | None:
    """What stands against a pod for the assignment."""
    stopping = next((pod for pod in snapshot.pods if not pod.ended), None)
    if stopping:
        return Say("False", "Stopping", f"pod {stopping.name} has to stop before the next attempt starts")
    if not _lease_holds(snapshot, assignment, now):
        return Say("False", "LeaseExpired", f"node {assignment.node} has not renewed the assignment's lease")
    if snapshot.refusal:
        reason = {403: "PodForbidden", 409: "NameTaken"}.get(snapshot.refusal.code, "PodRefused")
        return Say("False", reason, snapshot.refusal.message)
    return None


def _lease_holds(snapshot: JobSnapshot, assignment: Assignment, now: float) -> bool:
    """Whether the node renewed the lease in time: its report renews it before the scheduler notes that down."""
    report = snapshot.reports.get(assignment.node)
    reported = report.time if report and report.time is not None else 0.0
    renewed = max(unix_or_none(assignment.lease.renew_time) or 0.0, reported)
    return now <= renewed + assignment.lease.duration_seconds


def _delay(snapshot: JobSnapshot, assignment: Assignment, pod: PodView | None, running: Say) -> _Delay | None:
    """Why no pod runs; None where that is no concern of the start's, or a pod can be made now."""
    longest = snapshot.start_deadline_seconds
    known = min(PROBLEM_SECONDS, longest)
    if pod and pod.problem:
        return _Delay(pod.problem.reason, pod.problem.message, known, pod.problem.reason in _OWN_PROBLEMS)
    if pod:
        # An init container at work has started, and takes as long as the job wants it to.
        return None if pod.initializing else _Delay("StartDeadlineExceeded", _silence(pod, longest), longest)
    if running.reason in _OBSTACLES:
        own = snapshot.refusal is not None and _own_refusal(snapshot, snapshot.refusal)
        return _Delay(running.reason, running.message, known, own)
    ended = [pod for pod in snapshot.pods if pod.ended and pod.assignment == assignment.id]
    if running.reason == "BackOff" and ended and ended[-1].turned_away:
        return _Delay(_word(ended[-1].end_reason), describe_end(ended[-1]), known)
    return None


def _silence(pod: PodView, seconds: float) -> str:
    where = f"on node {pod.node}" if pod.node else "and kube-scheduler has not bound it"
    events = f"`kubectl describe pod {pod.name}` shows its events"
    return f"pod {pod.name} has not started within {seconds:.0f} s {where}; its status does not say why, {events}"


def _own_refusal(snapshot: JobSnapshot, refusal: Refusal) -> bool:
    """Whether the API server refused the pod for what the job asks for."""
    if refusal.code == 403:
        return snapshot.spec.template is not None and "violates PodSecurity" in refusal.message
    return refusal.code in (400, 422)


def _word(reason: str) -> str:
    """The kubelet's reason as a word: it names a resource in full, e.g. `OutOfrowen.dev/harvest`."""
    if _WORD.fullmatch(reason):
        return reason
    return "OutOfResource" if reason.startswith("OutOf") else "TurnedAway"


def _begun(snapshot: JobSnapshot, attempts: Attempts, assignment: Assignment, pod: PodView | None, now: float) -> float:
    """Since when the job could be running. Attempts that were turned away do not move it."""
    times = [unix(assignment.time), attempts.ready_at, pod.waiting_since if pod else None]
    before = find_condition(snapshot.status.conditions, "Running")
    if before:
        # Ended pods may be gone by now; the condition keeps when the last one was seen to run.
        times.append(now if before.status == "True" else unix(before.last_transition_time))
    return max(time for time in times if time is not None)
