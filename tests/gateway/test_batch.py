"""A batch out of its job's status."""

from typing import Any

import pytest

from rowen.gateway.batch import NO_RESULTS, Batch, Results, read_batch
from rowen.gateway.jobs import BATCH_ANNOTATION, CANCELLED_ANNOTATION, BatchRecord

STEM = "0" * 27
RECORD = BatchRecord(input_file_id="f", endpoint="/v1/score", completion_window="1m", model="chat", rows=10)
TIME = "1970-01-01T00:{minute:02}:00Z"


def condition(type_: str, status: str = "True", reason: str = "Yes", minute: int = 5) -> dict[str, Any]:
    return {
        "type": type_, "status": status, "reason": reason, "message": "words",
        "lastTransitionTime": TIME.format(minute=minute),
    }  # fmt: skip


def raw(*conditions: dict[str, Any], cancelled: str | None = None, **status: Any) -> dict[str, Any]:
    annotations = {BATCH_ANNOTATION: RECORD.model_dump_json(by_alias=True)}
    annotations |= {CANCELLED_ANNOTATION: cancelled} if cancelled is not None else {}
    return {
        "metadata": {
            "name": f"batch-{STEM}", "namespace": "ns", "creationTimestamp": TIME.format(minute=1),
            "annotations": annotations,
        },
        "status": {"conditions": list(conditions), **status},
    }  # fmt: skip


def batch(*conditions: dict[str, Any], **more: Any) -> Batch:
    found = read_batch(raw(*conditions, **more))
    assert found is not None
    return found


def progress(completed: int, total: int = 10) -> dict[str, Any]:
    return {"unit": "rows", "completed": completed, "total": total}


NOW = TIME.format(minute=9)
DONE = condition("Finished", reason="Completed")
LATE = condition("Finished", reason="DeadlineExceeded")
FAILED = condition("Finished", reason="OOMKilled")
RUNS, STOPPED = condition("Running"), condition("Running", "False")
HELD = condition("Suspended")


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (batch(), "validating"),
        (batch(condition("Placed", "False")), "in_progress"),
        (batch(RUNS, progress=progress(9)), "in_progress"),
        (batch(RUNS, progress=progress(10)), "finalizing"),
        (batch(RUNS, progress=progress(0, 0)), "in_progress"),
        (batch(condition("Finished", "False", "Unfinished")), "in_progress"),
        (batch(HELD, STOPPED), "in_progress"),
        (batch(DONE), "completed"),
        (batch(LATE), "expired"),
        (batch(FAILED), "failed"),
        (batch(RUNS, cancelled=NOW), "cancelling"),
        (batch(RUNS, HELD, cancelled=NOW), "cancelling"),
        (batch(HELD, STOPPED, cancelled=NOW), "cancelled"),
        (batch(HELD, cancelled=NOW), "cancelled"),
        (batch(cancelled=NOW), "cancelling"),
        (batch(DONE, cancelled=NOW), "completed"),
        (batch(FAILED, cancelled=NOW), "cancelled"),
        (batch(LATE, cancelled="somebody's own words"), "cancelled"),
    ],
)
def test_status(made: Batch, status: str) -> None:
    told = made.to_wire(NO_RESULTS)
    assert (made.status, told["status"]) == (status, status)
    ends = {word: told[f"{word}_at"] for word in ("completed", "failed", "expired", "cancelled")}
    assert {word for word, time in ends.items() if time is not None} == ({status} & set(ends))
    assert (told["errors"] is not None) == (status == "failed")
    assert (told["cancelling_at"] is not None) == (made.cancelling is not None)


def test_times_are_unix_seconds() -> None:
    ended = batch(DONE, startTime=TIME.format(minute=2), completionTime=TIME.format(minute=4)).to_wire(NO_RESULTS)
    assert [ended[name] for name in ("created_at", "in_progress_at", "completed_at", "expires_at")] == [
        60, 120, 240, 120
    ]  # fmt: skip
    assert batch(FAILED).to_wire(NO_RESULTS)["failed_at"] == 300
    cancelled = batch(HELD, cancelled=NOW).to_wire(NO_RESULTS)
    assert (cancelled["cancelling_at"], cancelled["cancelled_at"]) == (540, 300)
    assert batch(HELD, cancelled="x").to_wire(NO_RESULTS)["cancelling_at"] == 0


def test_counts_and_files() -> None:
    results = Results(frozenset({"errors"}), 3)
    told = batch(LATE, progress=progress(5)).to_wire(results)
    assert told["request_counts"] == {"total": 10, "completed": 2, "failed": 3}
    assert (told["output_file_id"], told["error_file_id"]) == (None, f"file-{STEM}-errors")
    # The last report of how far it is may be older than what is written.
    assert batch(LATE, progress=progress(1)).to_wire(results)["request_counts"]["completed"] == 0
    assert batch().to_wire(NO_RESULTS)["request_counts"] == {"total": 10, "completed": 0, "failed": 0}


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (batch(DONE), 0),
        (batch(LATE), 601),
        (batch(FAILED), 601),
        (batch(HELD, STOPPED, cancelled=NOW), 601),
        (batch(RUNS), None),
        (batch(HELD, STOPPED), None),
    ],
)
def test_when_nothing_changes_any_more(made: Batch, seconds: int | None) -> None:
    """In seconds after the end: a worker that is told to end may still write what it has."""
    ended = made.ended or 0
    assert made.settled(ended + 10**6) is (seconds is not None)
    if seconds is not None:
        assert made.settled(ended + seconds)
        assert made.settled(ended + seconds - 1) is (seconds == 0)


def test_what_went_wrong_is_told_in_the_jobs_words() -> None:
    errors = batch(FAILED).to_wire(NO_RESULTS)["errors"]
    fault = {"code": "OOMKilled", "line": None, "message": "words", "param": None}
    assert errors == {"object": "list", "data": [fault]}


def test_a_job_that_is_no_batch() -> None:
    other = raw()
    other["metadata"]["name"] = "batch-of-mine"
    assert read_batch(other) is None
    unmarked = raw()
    unmarked["metadata"]["annotations"] = {}
    assert read_batch(unmarked) is None
    del (new := raw())["status"]
    found = read_batch(new)
    assert found is not None
    assert (found.status, found.namespace, found.id) == ("validating", "ns", f"batch_{STEM}")
