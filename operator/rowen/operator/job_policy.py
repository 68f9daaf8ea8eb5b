"""What to do about one OfflineJob: `decide`, pure.

1. A job that somebody else manages, or that is being deleted, is left alone.
2. Ended pods are counted, each attempt once.
3. A finished job keeps its ended pods until its time to live is over; then the job goes, and they with it.
4. Pods of a withdrawn assignment, and all pods of a suspended job, are deleted: no failure.
5. A pod that cannot go because its node is lost is deleted by force once the lease has run out.
6. Where there is an assignment with a live lease, no other pod left, and no back-off, a pod is made.
"""

from typing import Any

from rowen.crds.common import Condition, find_condition
from rowen.crds.offline_job import Assignment, Progress
from rowen.operator.decision import Decision, Manifest, Note, Removal
from rowen.operator.job_attempts import Attempts, attempts_of
from rowen.operator.job_conditions import (
    conditions,
    describe_end,
    failure_reason,
    merged,
    preempted,
    running_of,
    state,
    waiting,
)
from rowen.operator.job_pod import job_pod, pod_name
from rowen.operator.job_snapshot import JobSnapshot
from rowen.operator.pods import PodView
from rowen.operator.reports import FRESH_SECONDS, tenancies
from rowen.operator.say import Say
from rowen.operator.timestamps import rfc3339, unix, unix_or_none

MANAGER = "rowen.dev/operator"
FORCE_SECONDS = 30.0
"""How long after its deletion was due a pod of a lost node is deleted by force."""
REFUSED_SECONDS = 30.0


def decide(snapshot: JobSnapshot, now: float) -> Decision:
    """The decision for a job at `now` (Unix seconds)."""
    if snapshot.spec.managed_by not in (None, MANAGER):
        return Decision(reason=f"managed by {snapshot.spec.managed_by}")
    if snapshot.deleting:
        return Decision(reason="being deleted; owner references take the pods along")
    attempts = attempts_of(snapshot)
    finished = _finished(snapshot, attempts)
    if finished:
        return _decide_finished(snapshot, attempts, finished, now)
    return _decide_unfinished(snapshot, attempts, now)


def _finished(snapshot: JobSnapshot, attempts: Attempts) -> Say | None:
    """Finished, once it is true; it never becomes false again."""
    before = find_condition(snapshot.status.conditions, "Finished")
    if before and before.status == "True":
        return Say("True", before.reason, before.message)
    if attempts.last_ended is not None:
        if attempts.last_ending == "Completed":
            result = attempts.last_ended.result
            return Say("True", "Completed", result.message if result else "the pod succeeded")
        if attempts.last_ending == "UserError":
            return Say("True", failure_reason(attempts.last_ended), describe_end(attempts.last_ended))
    if attempts.failures > snapshot.spec.backoff_limit:
        end = describe_end(attempts.last_ended) if attempts.last_ended else "the last pod is gone"
        message = f"{attempts.failures} attempts failed, backoffLimit is {snapshot.spec.backoff_limit}; {end}"
        return Say("True", failure_reason(attempts.last_ended), message)
    if snapshot.refusal and snapshot.refusal.code in (400, 422) and snapshot.spec.template is not None:
        return Say("True", "InvalidTemplate", snapshot.refusal.message)
    return None


def _decide_finished(snapshot: JobSnapshot, attempts: Attempts, finished: Say, now: float) -> Decision:
    says = _says(snapshot, Say("False", "Finished"), preempted(snapshot, None, now), finished)
    own = conditions(snapshot, now, says)
    ended_at = attempts.last_ended.finished_at if attempts.last_ended else None
    completion = snapshot.status.completion_time or rfc3339(ended_at or now)
    ttl = snapshot.spec.ttl_seconds_after_finished
    left = None if ttl is None else unix(completion) + ttl - now
    expired = left is not None and left <= 0
    removals = [Removal(pod.name, pod.uid, "the job has finished") for pod in snapshot.pods if _lives(pod)]
    return Decision(
        reason=f"finished: {finished.reason}",
        removals=(*removals, *_forced(snapshot, now)),
        status=_status(snapshot, attempts, own, now, completion),
        notes=_ending_notes(snapshot, attempts, finished),
        delete_object=expired,
        requeue_seconds=None if left is None or expired else left,
    )


def _decide_unfinished(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Decision:
    assignment = None if snapshot.spec.suspend else snapshot.assignment
    removals = _removals(snapshot, assignment)
    leaving = {removal.uid for removal in removals}
    current = next((pod for pod in snapshot.pods if _lives(pod) and pod.uid not in leaving), None)
    start = _start(snapshot, attempts, assignment, current, now)
    children: tuple[Manifest, ...] = ()
    notes = [Note("Normal", "Evicted", f"pod {removal.pod} removed: {removal.reason}") for removal in removals]
    notes += [Note("Warning", "AttemptFailed", describe_end(pod)) for pod in attempts.newly_failed]
    if assignment and start.reason == "Starting" and current is None:
        attempt = attempts.started + 1
        children = (job_pod(snapshot, assignment, attempt),)
        devices = ", ".join(assignment.devices)
        notes.append(Note("Normal", "Started", f"attempt {attempt} on node {assignment.node}, devices {devices}"))
    if snapshot.refusal or (current and current.problem):
        notes += _problem_note(snapshot, start)
    says = _says(snapshot, start, preempted(snapshot, current, now), Say("False", "Unfinished"))
    own = conditions(snapshot, now, says)
    return Decision(
        reason=f"{start.reason}: {start.message}",
        removals=(*removals, *_forced(snapshot, now)),
        children=children,
        status=_status(snapshot, attempts, own, now, None, started=attempts.started + len(children)),
        notes=tuple(notes),
        requeue_seconds=_requeue(snapshot, attempts, start, now),
    )


def _start(
    snapshot: JobSnapshot, attempts: Attempts, assignment: Assignment | None, current: PodView | None, now: float
) -> Say:
    """The Running condition; reason Starting without a current pod means: make one now."""
    if snapshot.spec.suspend:
        return Say("False", "Suspended", "spec.suspend is true")
    if current:
        return running_of(current)
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


def _lives(pod: PodView) -> bool:
    return not pod.ended and not pod.deleting


def _removals(snapshot: JobSnapshot, assignment: Assignment | None) -> tuple[Removal, ...]:
    """Live pods that must go: the job is suspended, or their assignment was withdrawn; the newest stays."""
    live = [pod for pod in snapshot.pods if _lives(pod)]
    if snapshot.spec.suspend:
        return tuple(Removal(pod.name, pod.uid, "the job is suspended") for pod in live)
    wanted = [pod for pod in live if assignment and pod.assignment == assignment.id]
    keep = wanted[-1].uid if wanted else None
    return tuple(Removal(pod.name, pod.uid, "its assignment was withdrawn") for pod in live if pod.uid != keep)


def _forced(snapshot: JobSnapshot, now: float) -> tuple[Removal, ...]:
    """Pods whose deletion is long due on a node that no longer reports, so that its lease has run out."""
    return tuple(
        Removal(pod.name, pod.uid, f"node {pod.node} is lost and its lease has run out", force=True)
        for pod in snapshot.pods
        if pod.deletion_deadline is not None
        and now > pod.deletion_deadline + FORCE_SECONDS
        and _lost(snapshot, pod, now)
    )


def _lost(snapshot: JobSnapshot, pod: PodView, now: float) -> bool:
    report = snapshot.reports.get(pod.node or "")
    return report is None or report.age(now) > 2 * FRESH_SECONDS


def _says(snapshot: JobSnapshot, running: Say, preempted_: Say, finished: Say) -> dict[str, Say]:
    suspended = Say("True", "Suspended", "spec.suspend is true") if snapshot.spec.suspend else Say("False", "Active")
    return {"Suspended": suspended, "Running": running, "Preempted": preempted_, "Finished": finished}


def _requeue(snapshot: JobSnapshot, attempts: Attempts, start: Say, now: float) -> float | None:
    if snapshot.refusal:
        return REFUSED_SECONDS
    if start.reason == "BackOff" and attempts.next_start is not None:
        return max(attempts.next_start - now, 0.1)
    if start.reason == "Stopping" or any(pod.deleting for pod in snapshot.pods):
        return FORCE_SECONDS
    return None


def _ending_notes(snapshot: JobSnapshot, attempts: Attempts, finished: Say) -> tuple[Note, ...]:
    before = find_condition(snapshot.status.conditions, "Finished")
    if before and before.status == "True":
        return ()
    if finished.reason == "Completed":
        return (Note("Normal", "Completed", finished.message),)
    return (Note("Warning", finished.reason, finished.message),)


def _problem_note(snapshot: JobSnapshot, running: Say) -> list[Note]:
    """A note when a problem is new."""
    before = find_condition(snapshot.status.conditions, "Running")
    return [] if before and before.reason == running.reason else [Note("Warning", running.reason, running.message)]


def _status(
    snapshot: JobSnapshot,
    attempts: Attempts,
    own: list[Condition],
    now: float,
    completion: str | None,
    *,
    started: int | None = None,
) -> dict[str, Any]:
    """The operator's part of the status."""
    result = attempts.last_ended.result if attempts.last_ended and attempts.last_ending != "Removed" else None
    starts = [pod.started_at for pod in snapshot.pods if pod.started_at is not None]
    progress = _progress(snapshot, attempts, now)
    status = {
        "observedGeneration": snapshot.generation,
        "conditions": [condition.to_wire() for condition in own],
        "state": state(merged(snapshot.status.conditions, own)),
        "kind": snapshot.kind,
        "attempts": attempts.started if started is None else started,
        "failures": attempts.failures,
        "countedAttempt": attempts.counted,
        "progress": progress.to_wire() if progress else None,
        "startTime": snapshot.status.start_time or (rfc3339(min(starts)) if starts else None),
        "completionTime": completion,
        "result": result.message if result else snapshot.status.result,
    }
    return {name: value for name, value in status.items() if value is not None}


def _progress(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Progress | None:
    """From the worker's last words, else from its node's report, else as it was."""
    unit = {"FineTune": "steps", "BatchInference": "rows"}.get(snapshot.kind)
    live = next((pod for pod in snapshot.pods if not pod.ended), None)
    if live is None and attempts.last_ended and attempts.last_ended.result:
        said = attempts.last_ended.result
        return Progress.from_wire({"unit": said.unit, "completed": said.completed, "total": said.total})
    report = snapshot.reports.get(live.node or "") if live else None
    if live and report and report.fresh(now):
        for _, tenant in tenancies(report, snapshot.namespace, live.name):
            if tenant.total:
                values = {"completed": tenant.completed, "total": tenant.total, **({"unit": unit} if unit else {})}
                return Progress.from_wire(values)
    return snapshot.status.progress
