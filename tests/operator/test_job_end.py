"""When a job has finished, and how long it is kept then."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import NOW, PLACED, TEMPLATE, assignment, condition, ended, job, placed, pod

from rowen.crds.worker import WorkerResult
from rowen.operator.job_policy import decide
from rowen.operator.job_snapshot import JobSnapshot
from rowen.operator.pods import Problem
from rowen.operator.start_wait import StartWait
from rowen.operator.timestamps import rfc3339

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
    assert decision.status["completionTime"] == rfc3339(completion)
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
