"""When a job has finished, and how long it is kept then."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import NOW, PLACED, TEMPLATE, assignment, condition, ended, job, placed, pod, running

from rowen.crds.job.worker import WorkerResult
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Decision, Refusal
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.view import PodView, Problem

DONE = WorkerResult(reason="Completed", message="all rows", unit="rows", completed=9, total=9)
BAD = WorkerResult(reason="DatasetMissing", message="no /volumes/data/x", unit="steps", completed=0, total=0)
SPEC: dict[str, Any] = job().spec.to_wire()
TOLD = {"assignment": "a0", "reason": "ErrImagePull", "message": "m", "cause": "Job"}


@pytest.mark.parametrize(
    ("snapshot", "completion"),
    [
        (job(status=placed(), pods=(ended(result=DONE, finished_at=NOW - 7),)), NOW - 7),
        (job(status=placed(), pods=(ended(1, 64, result=BAD, finished_at=NOW - 7),)), NOW - 7),
        (
            job(status=placed(failures=3, countedAttempt=3), pods=(ended(4, 1, finished_at=NOW - 7),)),
            NOW - 7,
        ),
        # An earlier attempt's end is not the job's.
        (
            job(
                {"template": TEMPLATE, "backoffLimit": 0},
                placed(countedAttempt=1),
                pods=(
                    ended(1, 1, finished_at=NOW - 7200),
                    pod(2, problem=Problem("ErrImagePull", "not found", "mine")),
                ),
                wait=StartWait("a1", 1, NOW - 500, "pod p2", NOW - 121),
            ),
            NOW,
        ),
        (
            job({"template": {"spec": {}}}, placed(countedAttempt=1), pods=(ended(1, 1, finished_at=NOW - 7200),)),
            NOW,
        ),
        (
            job(
                {**SPEC, "backoffLimit": 0},
                placed(countedAttempt=1, failures=1),
                pods=(ended(1, 1, finished_at=NOW - 7200),),
            ),
            NOW,
        ),
        (
            job(
                {**SPEC, "backoffLimit": 0},
                {"conditions": [], "startFailure": TOLD, "failures": 1},
                pods=(ended(1, 1, "a0", finished_at=NOW - 7200),),
            ),
            NOW,
        ),
    ],
    ids=["completed", "user error", "crashes", "start failure", "invalid template", "lower limit", "told before"],
)
def test_a_job_has_finished_when_what_finished_it_came_to_pass(snapshot: JobSnapshot, completion: float) -> None:
    """And its time to live begins then."""
    kept = replace(snapshot, spec=snapshot.spec.model_copy(update={"ttl_seconds_after_finished": 60}))
    decision = decide(kept, NOW)
    assert decision.status is not None
    assert next(entry for entry in decision.status["conditions"] if entry["type"] == "Finished")["status"] == "True"
    assert decision.status["completionTime"] == rfc3339(completion, "seconds")
    assert (decision.delete_object, decision.requeue_seconds) == (False, completion + 60 - NOW)


def test_time_to_live() -> None:
    status = {
        "conditions": [*PLACED, condition("Finished", "True", "Completed")],
        "completionTime": rfc3339(NOW - 50),
        "assignment": assignment(),
    }
    waits = decide(job({**SPEC, "ttlSecondsAfterFinished": 60}, status), NOW)
    assert (waits.delete_object, waits.requeue_seconds) == (False, 10)
    assert decide(job({**SPEC, "ttlSecondsAfterFinished": 50}, status), NOW).delete_object
    assert not decide(job(None, status), NOW).delete_object


@pytest.mark.parametrize("code", [400, 422])
def test_a_template_that_the_api_server_does_not_take_ends_the_job(code: int) -> None:
    decision = decide(job({"template": TEMPLATE}, placed(), refusal=Refusal(code, "spec: Required")), NOW)
    assert finished(decision) == ("True", "InvalidTemplate", "spec: Required")


@pytest.mark.parametrize("code", [399, 401, 403, 421, 423])
def test_another_refusal_does_not(code: int) -> None:
    decision = decide(job({"template": TEMPLATE}, placed(), refusal=Refusal(code, "no")), NOW)
    assert finished(decision)[0] == "False"


def test_of_two_attempts_that_failed_while_nobody_looked_the_later_one_finished_the_job() -> None:
    pods = (ended(1, 1, finished_at=NOW - 100), ended(2, 1, finished_at=NOW - 7))
    decision = decide(job({**SPEC, "backoffLimit": 1}, placed(), pods=pods), NOW)
    assert decision.status is not None
    assert decision.status["completionTime"] == rfc3339(NOW - 7)
    assert finished(decision) == (
        "True",
        "Failed",
        "2 attempts failed, backoffLimit is 1; attempt 2: Error (exit code 1)",
    )


@pytest.mark.parametrize(("result", "message"), [(DONE, "all rows"), (None, "the pod succeeded")])
def test_completion_is_told_in_the_workers_words(result: WorkerResult | None, message: str) -> None:
    decision = decide(job(status=placed(), pods=(ended(result=result),)), NOW)
    assert finished(decision) == ("True", "Completed", message)


def finished(decision: Decision) -> tuple[str, str, str]:
    assert decision.status is not None
    entry = next(entry for entry in decision.status["conditions"] if entry["type"] == "Finished")
    return entry["status"], entry["reason"], entry["message"]


ACTIVE = condition("Suspended", "False", "Active", since=NOW - 100)
HELD = condition("Suspended", "True", "Suspended", since=NOW - 100)


def active(seconds: int, since: dict[str, Any] = ACTIVE, **values: Any) -> Decision:
    """The decision for a job that has been active for 100 s."""
    status = placed()
    status["conditions"] = [*status["conditions"], since]
    spec = {**SPEC, "activeDeadlineSeconds": seconds, **values.pop("spec", {})}
    return decide(job(spec, status, **values), NOW)


@pytest.mark.parametrize("pods", [(), (running(),), (pod(),)])
def test_after_its_deadline_a_job_fails_whether_it_runs_or_waits(pods: tuple[PodView, ...]) -> None:
    decision = active(100, pods=pods)
    told = f"active since {rfc3339(NOW - 100)}, activeDeadlineSeconds is 100"
    assert finished(decision) == ("True", "DeadlineExceeded", told)
    assert decision.status is not None
    assert (decision.status["state"], decision.status["completionTime"]) == ("Failed", rfc3339(NOW))
    assert [removal.pod for removal in decision.removals] == [one.name for one in pods]
    assert [note.reason for note in decision.notes] == ["DeadlineExceeded"]
    assert not decision.children


def test_before_its_deadline_it_is_decided_again_when_that_is_due() -> None:
    for seconds in (101, 107):
        decision = active(seconds, pods=(running(),))
        assert finished(decision)[:2] == ("False", "Unfinished")
        assert decision.requeue_seconds == seconds - 100


@pytest.mark.parametrize(
    ("since", "spec"),
    [
        (HELD, {"suspend": True}),
        (ACTIVE, {"suspend": True}),
        # It was resumed a moment ago: its time begins with the status that says so.
        (HELD, {}),
        (condition("Running", "False", "NotPlaced", since=NOW - 100), {}),
    ],
)
def test_a_suspended_or_new_job_has_all_its_time(since: dict[str, Any], spec: dict[str, Any]) -> None:
    decision = active(50, since, spec=spec)
    assert finished(decision)[0] == "False"
    entry = next(entry for entry in (decision.status or {})["conditions"] if entry["type"] == "Suspended")
    suspended = spec.get("suspend", False)
    assert entry["lastTransitionTime"] == rfc3339(NOW - 100 if since is HELD and suspended else NOW)


def test_work_that_was_completed_is_completed_whenever_that_is_seen() -> None:
    assert finished(active(50, pods=(ended(result=DONE),)))[1] == "Completed"


def test_an_end_by_the_deadline_stays() -> None:
    status = {"conditions": [*PLACED, ACTIVE, condition("Finished", "True", "DeadlineExceeded")]}
    decision = decide(job({**SPEC, "activeDeadlineSeconds": 5}, status, pods=(ended(result=DONE),)), NOW)
    assert finished(decision)[1] == "DeadlineExceeded"
    assert not decision.notes
