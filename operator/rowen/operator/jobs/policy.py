"""What to do about one OfflineJob: `decide`, pure.

1. A job that somebody else manages, or that is being deleted, is left alone.
2. Ended pods are counted, each attempt once. A new job's pod is tried in a dry run where it has parts of its user's.
3. A finished job keeps its ended pods until its time to live is over; then the job goes, and they with it.
4. Pods of a withdrawn assignment or a replaced engine, and all pods of a suspended job, are deleted: no failure.
5. A pod that cannot go because its node is lost is deleted by force once the lease has run out.
6. Where there is an assignment with a live lease, no other pod left, and no back-off, a pod is made.
7. A new job's first status is the scheduler's: the operator's comes with it, or some seconds later without it.
8. A start that has not come off in time is told once, and no further pod is made for its assignment (`job_start`).
"""

from collections.abc import Sequence
from typing import Any

from rowen.crds.common import Condition, find_condition
from rowen.crds.job.offline_job_status import Progress, StartFailure
from rowen.crds.names import HEARTBEAT_SECONDS
from rowen.kube.timestamps import rfc3339, unix_seconds
from rowen.operator.decision import Decision, Manifest, Note, Removal
from rowen.operator.jobs.attempts import Attempts, attempts_of
from rowen.operator.jobs.conditions import conditions, describe_end, merged, preempted, state
from rowen.operator.jobs.end import End, end_of, left_seconds
from rowen.operator.jobs.lost_pods import FORCE_SECONDS, forced
from rowen.operator.jobs.pod import job_pod
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start import Start, start_of, told_failure
from rowen.operator.pods.view import PodView
from rowen.operator.say import Say
from rowen.operator.world.reports import tenancies

MANAGER = "rowen.dev/operator"
REFUSED_SECONDS = 30.0
FIRST_WORD_SECONDS = 5.0
"""Longest wait of a new job's status for the scheduler's word: written at once it would make that one a conflict."""
SIGN_SECONDS = 1.0
"""How often it is looked whether the API server has given a sign since a start was due."""


def decide(snapshot: JobSnapshot, now: float) -> Decision:
    """The decision for a job at `now` (Unix seconds)."""
    if snapshot.spec.managed_by not in (None, MANAGER):
        return Decision(reason=f"managed by {snapshot.spec.managed_by}")
    if snapshot.deleting:
        return Decision(reason="being deleted; owner references take the pods along")
    attempts = attempts_of(snapshot)
    told = told_failure(snapshot)
    end = end_of(snapshot, attempts, told, now)
    if end:
        return _decide_finished(snapshot, attempts, end, told, now)
    if _untried(snapshot):
        return Decision(reason="new: its pod is tried", trial=job_pod(snapshot, None, 1))
    start = start_of(snapshot, attempts, now)
    if start.failure and start.failed_now and start.failure.cause == "Job":
        attempts = attempts.with_failed_start(start.pod)
        end = end_of(snapshot, attempts, start.failure, now)
    if end:
        return _decide_finished(snapshot, attempts, end, start.failure, now, _problem_note(snapshot, start))
    wait = _first_word_seconds(snapshot, now)
    if wait is not None:
        reason = "new: the scheduler has the first word"
        return Decision(reason=reason, notes=tuple(_trial_note(snapshot)), requeue_seconds=wait)
    return _decide_unfinished(snapshot, attempts, start, now)


def _decide_finished(
    snapshot: JobSnapshot,
    attempts: Attempts,
    end: End,
    failure: StartFailure | None,
    now: float,
    notes: Sequence[Note] = (),
) -> Decision:
    says = _says(snapshot, Say("False", "Finished"), preempted(snapshot, None, now), end.finished)
    own = conditions(snapshot, now, says)
    completion = snapshot.status.completion_time or rfc3339(end.time or now, "seconds")
    ttl = snapshot.spec.ttl_seconds_after_finished
    left = None if ttl is None else unix_seconds(completion) + ttl - now
    expired = left is not None and left <= 0
    removals = [Removal(pod.name, pod.uid, "the job has finished") for pod in snapshot.pods if pod.lives]
    return Decision(
        reason=f"finished: {end.finished.reason}",
        removals=(*removals, *forced(snapshot, now)),
        status=_status(snapshot, attempts, own, failure, now, completion=completion),
        notes=(*notes, *_ending_notes(snapshot, end.finished)),
        delete_object=expired,
        requeue_seconds=None if left is None or expired else left,
    )


def _decide_unfinished(snapshot: JobSnapshot, attempts: Attempts, start: Start, now: float) -> Decision:
    removals = _removals(snapshot, start.pod)
    children: tuple[Manifest, ...] = ()
    notes = [Note("Normal", "Evicted", f"pod {removal.pod} removed: {removal.reason}") for removal in removals]
    notes += [Note("Warning", "AttemptFailed", describe_end(pod)) for pod in attempts.newly_failed]
    if start.assignment and start.running.reason == "Starting" and start.pod is None:
        attempt = attempts.started + 1
        children = (job_pod(snapshot, start.assignment, attempt),)
        devices = ", ".join(start.assignment.devices)
        where = f"node {start.assignment.node}, devices {devices}"
        rides = ", in the engine there" if start.assignment.rides else ""
        notes.append(Note("Normal", "Started", f"attempt {attempt} on {where}{rides}"))
    notes += [*_problem_note(snapshot, start), *_trial_note(snapshot)]
    says = _says(snapshot, start.running, preempted(snapshot, start.pod, now), Say("False", "Unfinished"))
    own = conditions(snapshot, now, says)
    return Decision(
        reason=f"{start.running.reason}: {start.running.message}",
        removals=(*removals, *forced(snapshot, now)),
        children=children,
        status=_status(snapshot, attempts, own, start.failure, now, started=attempts.started + len(children)),
        notes=tuple(notes),
        requeue_seconds=_requeue(snapshot, attempts, start, now),
    )


def _untried(snapshot: JobSnapshot) -> bool:
    """Whether a new job's pod has something of its user's that nobody has judged. The first status ends that."""
    new = snapshot.status.observed_generation is None and not snapshot.pods
    return new and snapshot.has_users_part and snapshot.trial is None


def _trial_note(snapshot: JobSnapshot) -> list[Note]:
    """A note while a new job's pod would be refused for what may pass, as a quota or a missing ServiceAccount."""
    refusal = snapshot.trial.refusal if snapshot.trial else None
    if refusal is None:
        return []
    return [Note("Warning", "PodForbidden", f"its pod would be refused now: {refusal.message}")]


def _first_word_seconds(snapshot: JobSnapshot, now: float) -> float | None:
    """How long the scheduler's word on a new job is waited for; None where it is there, or is not waited for."""
    if snapshot.created is None or snapshot.status.conditions or snapshot.pods:
        return None
    age = now - snapshot.created
    # A clock that is behind the API server's must not make the wait longer.
    return FIRST_WORD_SECONDS - age if 0.0 <= age < FIRST_WORD_SECONDS else None


def _removals(snapshot: JobSnapshot, keep: PodView | None) -> tuple[Removal, ...]:
    """Live pods that must go: of a suspended job all, else all but the newest of the present assignment.

    And that one, too, where it sends its rows to an engine that has been replaced.
    """
    return tuple(
        Removal(pod.name, pod.uid, _removal_reason(snapshot, pod)) for pod in snapshot.pods if pod.lives and pod != keep
    )


def _removal_reason(snapshot: JobSnapshot, pod: PodView) -> str:
    """In the scheduler's words where they are still there: a new assignment has taken their place."""
    if snapshot.spec.suspend:
        return "the job is suspended"
    held = snapshot.assignment
    if held and held.id == pod.assignment:
        if snapshot.engine and snapshot.outlives_its_engine(pod):
            if pod.engine and pod.engine.pod == snapshot.engine.pod:
                return f"the engine that it sends its rows to, pod {snapshot.engine.pod}, has another address now"
            return f"the engine that it sends its rows to was replaced by pod {snapshot.engine.pod}"
        return "a later pod has its assignment"
    if held:
        return f"its assignment was withdrawn; assignment {held.id} on node {held.node} has taken its place"
    return f"its assignment was withdrawn{f': {snapshot.withdrawal}' if snapshot.withdrawal else ''}"


def _says(snapshot: JobSnapshot, running: Say, preempted_: Say, finished: Say) -> dict[str, Say]:
    suspended = Say("True", "Suspended", "spec.suspend is true") if snapshot.spec.suspend else Say("False", "Active")
    return {"Suspended": suspended, "Running": running, "Preempted": preempted_, "Finished": finished}


def _requeue(snapshot: JobSnapshot, attempts: Attempts, start: Start, now: float) -> float | None:
    waits = []
    if snapshot.refusal:
        waits.append(REFUSED_SECONDS)
    if start.running.reason == "BackOff" and attempts.next_start is not None:
        waits.append(attempts.next_start - now)
    if start.running.reason == "Stopping" or any(pod.deleting for pod in snapshot.pods):
        waits.append(FORCE_SECONDS)
    engine_away = start.pod is not None and start.pod.engine is not None and snapshot.engine is None
    if engine_away or start.running.reason in ("LeaseExpired", "EngineAway"):
        # That the node is heard again, or its engine has an address, wakes nobody.
        waits.append(HEARTBEAT_SECONDS)
    left = left_seconds(snapshot, now)
    if left is not None:
        waits.append(left)
    if start.left_seconds is not None:
        waits.append(max(start.left_seconds, SIGN_SECONDS))
    return max(min(waits), 0.1) if waits else None


def _ending_notes(snapshot: JobSnapshot, finished: Say) -> tuple[Note, ...]:
    before = find_condition(snapshot.status.conditions, "Finished")
    if before and before.status == "True":
        return ()
    if finished.reason == "Completed":
        return (Note("Normal", "Completed", finished.message),)
    return (Note("Warning", finished.reason, finished.message),)


def _problem_note(snapshot: JobSnapshot, start: Start) -> list[Note]:
    """A note when a problem is new, and one when the start has failed by it."""
    if start.failure:
        new = start.failed_now
    else:
        before = find_condition(snapshot.status.conditions, "Running")
        problem = snapshot.refusal or (start.pod and start.pod.problem and not start.pod.runs)
        new = bool(problem) and not (before and before.reason == start.running.reason)
    return [Note("Warning", start.running.reason, start.running.message)] if new else []


def _status(
    snapshot: JobSnapshot,
    attempts: Attempts,
    own: list[Condition],
    failure: StartFailure | None,
    now: float,
    *,
    completion: str | None = None,
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
        "startFailure": failure.to_wire() if failure else None,
        "rideRefused": snapshot.status.ride_refused or (attempts.ride_refused or "")[:1024] or None,
        "rideLosses": attempts.ride_losses.to_wire() if attempts.ride_losses else None,
        "progress": progress.to_wire() if progress else None,
        "startTime": snapshot.status.start_time or (rfc3339(min(starts), "seconds") if starts else None),
        "completionTime": completion,
        "result": result.message if result else snapshot.status.result,
    }
    return {name: value for name, value in status.items() if value is not None}


def _progress(snapshot: JobSnapshot, attempts: Attempts, now: float) -> Progress | None:
    """From the last worker's last words, else from its node's report, else as it was."""
    unit = {"FineTune": "steps", "BatchInference": "rows"}.get(snapshot.kind)
    live = next((pod for pod in snapshot.pods if not pod.ended), None)
    last = attempts.last_ended
    # What a later attempt did that is gone stands in the status alone.
    if live is None and last and last.result and last.attempt == attempts.started:
        said = last.result
        return Progress.from_wire({"unit": said.unit, "completed": said.completed, "total": said.total})
    report = snapshot.reports.get(live.node or "") if live else None
    if live and report and report.fresh(now):
        for _, tenant in tenancies(report, snapshot.namespace, live.name):
            if tenant.total:
                values = {"completed": tenant.completed, "total": tenant.total, **({"unit": unit} if unit else {})}
                return Progress.from_wire(values)
    return snapshot.status.progress
