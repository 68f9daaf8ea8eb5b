"""Whether the job has finished, why, and when."""

from dataclasses import dataclass

from rowen.crds.common import find_condition
from rowen.crds.job.offline_job_status import StartFailure
from rowen.crds.pod.template_rules import template_faults
from rowen.kube.timestamps import unix_seconds
from rowen.operator.jobs.attempts import Attempts
from rowen.operator.jobs.conditions import describe_end, failure_reason
from rowen.operator.jobs.pod import told_of_pod
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.say import Say


@dataclass(frozen=True)
class End:
    """The job's end."""

    finished: Say
    """The Finished condition."""
    time: float | None = None
    """When the pod ended that finished the job, Unix seconds; None where it was no pod: the end is seen now."""


def end_of(snapshot: JobSnapshot, attempts: Attempts, failure: StartFailure | None, now: float) -> End | None:
    """The job's end at `now` (Unix seconds), once it has come; it never goes away again.

    `failure` is its last start that failed. Work that was completed in time counts, however late that is seen.
    """
    before = find_condition(snapshot.status.conditions, "Finished")
    if before and before.status == "True":
        return End(Say("True", before.reason, before.message))
    last = attempts.last_ended
    if last is not None and attempts.last_ending == "Completed":
        message = last.result.message if last.result else "the pod succeeded"
        return End(Say("True", "Completed", message), last.finished_at)
    if last is not None and attempts.last_ending == "UserError":
        return End(Say("True", failure_reason(last), describe_end(last)), last.finished_at)
    if attempts.failures > snapshot.spec.backoff_limit:
        return _exhausted(snapshot, attempts, failure)
    fault = _template_fault(snapshot)
    if fault:
        return End(Say("True", "InvalidTemplate", fault))
    left = left_seconds(snapshot, now)
    return _overdue(snapshot) if left is not None and left <= 0 else None


def left_seconds(snapshot: JobSnapshot, now: float) -> float | None:
    """Seconds until the job's deadline, below 0 after it; None where it has none, or its time does not run.

    As of a Job of Kubernetes, its time runs from when it is first seen, or was last resumed: since it is not suspended.
    """
    suspended, longest = find_condition(snapshot.status.conditions, "Suspended"), snapshot.spec.active_deadline_seconds
    if longest is None or snapshot.spec.suspend or suspended is None or suspended.status != "False":
        return None
    return unix_seconds(suspended.last_transition_time) + longest - now


def _overdue(snapshot: JobSnapshot) -> End:
    suspended = find_condition(snapshot.status.conditions, "Suspended")
    since = f"active since {suspended.last_transition_time}, " if suspended else ""
    message = f"{since}activeDeadlineSeconds is {snapshot.spec.active_deadline_seconds}"
    return End(Say("True", "DeadlineExceeded", message))


def _template_fault(snapshot: JobSnapshot) -> str | None:
    """What is wrong with the user's part of the pod, by Rowen's rules or the API server's."""
    if not snapshot.has_users_part:
        return None
    for refusal in (snapshot.refusal, snapshot.trial.refusal if snapshot.trial else None):
        if refusal and refusal.invalid:
            return told_of_pod(snapshot, refusal.message)
    return "; ".join(f"{field}: {words}" for field, words in template_faults(snapshot.spec)) or None


def _exhausted(snapshot: JobSnapshot, attempts: Attempts, failure: StartFailure | None) -> End:
    """After too many failures: what the last of them was."""
    reason = failure_reason(attempts.last_ended)
    end = describe_end(attempts.last_ended) if attempts.last_ended else "the last pod is gone"
    time = attempts.newly_failed[-1].finished_at if attempts.newly_failed else None
    if failure and failure.cause == "Job":
        reason, end, time = failure.reason, f"{failure.reason}: {failure.message}", None
    limit = snapshot.spec.backoff_limit
    count = f"{attempts.failures} attempt{'' if attempts.failures == 1 else 's'}"
    return End(Say("True", reason, f"{count} failed, backoffLimit is {limit}; {end}"), time)
