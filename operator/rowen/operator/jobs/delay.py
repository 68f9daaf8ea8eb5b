"""Where the job may run, whether it does, and what delays its start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowen.crds.job.offline_job_status import Assignment
from rowen.crds.names import WORKER_CONTAINER
from rowen.kube.timestamps import unix_or_none
from rowen.operator.jobs.attempts import Attempts
from rowen.operator.jobs.conditions import describe_end, running_of, waiting
from rowen.operator.jobs.lost_pods import FORCE_SECONDS
from rowen.operator.jobs.pod import pod_name
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start_wait import Cause
from rowen.operator.pods.container_fault import own_fault
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.say import Say

_OBSTACLES = ("Stopping", "EngineAway", "NameTaken", "PodForbidden", "PodRefused")
_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")


@dataclass(frozen=True)
class Delay:
    """Why no tenant runs yet."""

    reason: str
    message: str
    cause: Cause | None
    """Whose it is; None where the words do not say."""
    obstacle: str | None
    """What is in the way, the same word for as long as it is the same thing; None where nobody has said."""
    not_before: float = 0.0
    """Unix time until which it is in order."""


@dataclass(frozen=True)
class Place:
    """Where the job may run, and whether it does."""

    assignment: Assignment | None
    """None while the job is suspended."""
    pod: PodView | None
    """The assignment's pod, while it lives."""
    running: Say
    """The Running condition; reason Starting without a pod means: make one now."""
    delay: Delay | None
    """None where nothing is said and no pod could be starting, or one can be made now."""

    @property
    def idle(self) -> bool:
        """Whether no pod could be starting."""
        if self.running.reason == "Stopping":
            return True
        if self.pod:
            # An init container at work has started, and takes as long as the job wants it to.
            return self.pod.initializing
        return self.delay is None and self.running.reason in ("BackOff", "LeaseExpired")


def place_of(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Place:
    """The job's place at `now` (Unix seconds)."""
    assignment = None if snapshot.spec.suspend else snapshot.assignment
    pods = [pod for pod in snapshot.pods if pod.lives and assignment and pod.assignment == assignment.id]
    pod = pods[-1] if pods and not snapshot.outlives_its_engine(pods[-1]) else None
    running = _running(snapshot, attempts, assignment, pod, now)
    delay = None
    if assignment and running.status != "True":
        delay = _pod_delay(snapshot, pod) if pod else _no_pod_delay(snapshot, attempts, assignment, running)
    return Place(assignment, pod, running, delay)


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
        why = f"; it withdrew the last assignment: {snapshot.withdrawal}" if snapshot.withdrawal else ""
        return Say("False", "NotPlaced", f"the scheduler has not placed the job{why}")
    return _obstacle(snapshot, assignment, now) or Say(
        "False", "Starting", f"pod {pod_name(snapshot.name, attempts.started + 1)} is starting"
    )


def _obstacle(snapshot: JobSnapshot, assignment: Assignment, now: float) -> Say | None:
    """What stands against a pod for the assignment."""
    stopping = _stopping(snapshot)
    if stopping:
        return Say("False", "Stopping", f"pod {stopping[0].name} has to stop before the next attempt starts")
    if not _lease_holds(snapshot, assignment, now):
        return Say("False", "LeaseExpired", f"node {assignment.node} has not renewed the assignment's lease")
    if assignment.rides and snapshot.spec.batch_inference is not None and snapshot.engine is None:
        where = f"{', '.join(assignment.devices)} of node {assignment.node}"
        told = f"the engine on {where}, which is to answer, has no known address or is being replaced"
        return Say("False", "EngineAway", told)
    if snapshot.refusal:
        reason = {403: "PodForbidden", 409: "NameTaken"}.get(snapshot.refusal.code, "PodRefused")
        return Say("False", reason, snapshot.refusal.message)
    return None


def _stopping(snapshot: JobSnapshot) -> list[PodView]:
    return [pod for pod in snapshot.pods if not pod.ended]


def _lease_holds(snapshot: JobSnapshot, assignment: Assignment, now: float) -> bool:
    """Whether the node was heard in time: now, or when the scheduler made the assignment."""
    report = snapshot.reports.get(assignment.node)
    reported = report.time if report and report.time is not None else 0.0
    renewed = max(unix_or_none(assignment.lease.renew_time) or 0.0, reported)
    return now <= renewed + assignment.lease.duration_seconds


def _pod_delay(snapshot: JobSnapshot, pod: PodView) -> Delay | None:
    if pod.problem:
        return Delay(pod.problem.reason, pod.problem.message, _problem_cause(snapshot, pod.problem), f"pod {pod.uid}")
    if pod.initializing:
        return None
    message = _silence(pod, snapshot.start_deadline_seconds)
    return Delay("StartDeadlineExceeded", message, "Node", None)


def _no_pod_delay(snapshot: JobSnapshot, attempts: Attempts, assignment: Assignment, running: Say) -> Delay | None:
    if running.reason in _OBSTACLES:
        # The older pod has the time that it was given to stop.
        stopping = _stopping(snapshot)
        until = max((pod.deletion_deadline or 0.0 for pod in stopping), default=0.0) + FORCE_SECONDS
        obstacle = f"stop {stopping[0].uid}" if stopping else f"make {attempts.started + 1}"
        cause: Cause = "Node" if running.reason == "EngineAway" else _obstacle_cause(snapshot)
        return Delay(running.reason, running.message, cause, obstacle, not_before=until)
    ended = [pod for pod in snapshot.pods if pod.ended and pod.assignment == assignment.id]
    if running.reason == "BackOff" and ended and ended[-1].turned_away:
        return Delay(_word(ended[-1].end_reason), describe_end(ended[-1]), "Node", "turned away")
    return None


def _problem_cause(snapshot: JobSnapshot, problem: Problem) -> Cause | None:
    """Whose a pod's problem is; an image or container that is not the job's may do well on another node."""
    if problem.container is None:
        return "Cluster" if problem.reason == "SchedulingGated" else "Node"
    if not _users_own(snapshot, problem):
        return "Node"
    own = own_fault(problem.reason, problem.message)
    return None if own is None else "Job" if own else "Node"


def _users_own(snapshot: JobSnapshot, problem: Problem) -> bool:
    """Whether it is about what the user says: all of a template's containers, the sources of a worker's variables."""
    template = snapshot.spec.template
    if template is None:
        return snapshot.spec.pod_template is not None and problem.reason == "CreateContainerConfigError"
    return problem.container in _container_names(template)


def _container_names(template: Mapping[str, Any]) -> list[str]:
    """Names of the template's own containers, init containers included; the tenant has a name in any case."""
    spec = template.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("name") or WORKER_CONTAINER for container in containers]


def _obstacle_cause(snapshot: JobSnapshot) -> Cause:
    """What the API server calls invalid has ended its job before."""
    refusal = snapshot.refusal
    forbidden = refusal is not None and refusal.code == 403 and "violates PodSecurity" in refusal.message
    return "Job" if forbidden and snapshot.has_users_part else "Cluster"


def _silence(pod: PodView, seconds: float) -> str:
    where = f"on node {pod.node}" if pod.node else "and kube-scheduler has not bound it"
    events = f"`kubectl describe pod {pod.name}` shows its events"
    return f"pod {pod.name} has not started within {seconds:.0f} s {where}; its status does not say why, {events}"


def _word(reason: str) -> str:
    """The kubelet's reason as a word: it names a resource in full, e.g. `OutOfrowen.dev/harvest`."""
    if _WORD.fullmatch(reason):
        return reason
    return "OutOfResource" if reason.startswith("OutOf") else "TurnedAway"
