"""A job that is computed in an engine: its pod, what its worker says at its end, and what comes of that."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import (
    BATCH,
    ENGINE,
    FINE_TUNE,
    NOW,
    assignment,
    device,
    ended,
    job,
    placed,
    report,
    riding,
    running,
    tenant,
)

from rowen.crds.job.offline_job_status import StartFailure
from rowen.crds.job.worker import WorkerResult
from rowen.operator.jobs.pod import job_pod
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import pod_view

LOST = WorkerResult(reason="RideLost", message="no engine for 120 s", unit="steps", completed=3, total=9)
BROKEN = WorkerResult(reason="RideBroken", message="lost over its task", unit="steps", completed=3, total=9)
REFUSED = WorkerResult(reason="RideRefused", message="another model", unit="steps", completed=0, total=9)


def environment(pod: Any) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}


def said(snapshot: JobSnapshot, type_: str) -> tuple[str, str]:
    decision = decide(snapshot, NOW)
    assert decision.status is not None
    found = next(entry for entry in decision.status["conditions"] if entry["type"] == type_)
    return found["status"], found["reason"]


@pytest.mark.parametrize(
    ("memory", "request_bytes"), [({"memory": "8Gi"}, 1 << 30), ({"memory": "512Mi"}, 512 << 20), ({}, 1 << 30)]
)
def test_its_pod_has_a_seat_and_asks_for_little(memory: dict[str, str], request_bytes: int) -> None:
    snapshot = riding({"fineTune": FINE_TUNE, **memory})
    pod = job_pod(snapshot, snapshot.assignment, 1)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "10m", "memory": str(request_bytes)}
    assert resources["limits"].keys() == {"rowen.dev/ride", "memory"}
    assert resources["limits"]["rowen.dev/ride"] == "1"
    assert int(resources["limits"]["memory"]) >= request_bytes
    assert pod["metadata"]["annotations"]["rowen.dev/devices"] == "cpu1"
    assert environment(pod)["ROWEN_JOB_SPEC"] == environment(job_pod(snapshot, None, 1))["ROWEN_JOB_SPEC"]


def test_it_has_no_part_of_the_pool() -> None:
    snapshot = riding({"fineTune": FINE_TUNE, "memory": "2Gi", "memoryLimit": "5Gi"})
    pod = job_pod(snapshot, snapshot.assignment, 1)
    assert "ROWEN_POOL_BYTES" not in environment(pod)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == str(5 << 30)


def test_a_batchs_rows_go_to_the_engine() -> None:
    snapshot = riding({"batchInference": BATCH}, ENGINE)
    pod = job_pod(snapshot, snapshot.assignment, 1)
    told = environment(pod)
    assert (told["ROWEN_ENGINE_URL"], told["ROWEN_ENGINE_POD"]) == (ENGINE.url, ENGINE.pod)
    assert pod_view({**pod, "metadata": {**pod["metadata"], "uid": "p1"}}).engine == ENGINE
    own = job({"batchInference": BATCH}, placed())
    own_pod = job_pod(replace(own, engine=ENGINE), own.assignment, 1)
    assert not {"ROWEN_ENGINE_URL", "ROWEN_ENGINE_POD"} & environment(own_pod).keys()


def test_a_tuner_needs_no_address() -> None:
    snapshot = riding(engine=ENGINE)
    assert "ROWEN_ENGINE_URL" not in environment(job_pod(snapshot, snapshot.assignment, 1))
    assert decide(riding(), NOW).children


def test_a_batch_waits_for_the_engines_address() -> None:
    waiting = riding({"batchInference": BATCH})
    decision = decide(waiting, NOW)
    assert not decision.children
    assert said(waiting, "Running") == ("False", "EngineAway")
    assert decision.requeue_seconds is not None
    assert decide(replace(waiting, engine=ENGINE), NOW).children


def test_the_start_is_told_to_be_in_the_engine() -> None:
    notes = decide(riding(), NOW).notes
    assert [note.message for note in notes] == ["attempt 1 on node node-1, devices cpu1, in the engine there"]


@pytest.mark.parametrize("result", [LOST, BROKEN, REFUSED])
def test_an_engine_that_does_not_compute_it_is_no_failure_and_no_further_pod_asks_it(result: WorkerResult) -> None:
    snapshot = riding(pods=(ended(1, 1, result=result, rides=True),))
    decision = decide(snapshot, NOW)
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["attempts"]) == (0, 1)
    failure = StartFailure.from_wire(decision.status["startFailure"])
    assert (failure.assignment, failure.reason, failure.cause) == ("a1", result.reason, "Node")
    assert failure.message == result.message
    assert not decision.children
    assert said(snapshot, "Running") == ("False", "NotStarted")


def test_with_another_assignment_it_starts_again_at_once() -> None:
    status = {"assignment": assignment("a2"), "startFailure": failed(LOST)}
    decision = decide(job(None, placed("a2") | status, pods=(ended(1, 1, result=LOST, rides=True),)), NOW)
    assert len(decision.children) == 1
    assert decision.status is not None
    assert "startFailure" not in decision.status


def failed(result: WorkerResult) -> dict[str, Any]:
    return {"assignment": "a1", "reason": result.reason, "message": result.message, "cause": "Node"}


def test_a_refusal_is_remembered_and_a_single_loss_is_none() -> None:
    refused = decide(riding(pods=(ended(1, 1, result=REFUSED, rides=True),)), NOW).status
    lost = decide(riding(pods=(ended(1, 1, result=LOST, rides=True),)), NOW).status
    assert refused is not None
    assert lost is not None
    assert refused["rideRefused"] == "another model"
    assert "rideRefused" not in lost
    later = decide(job(None, placed("a2", rideRefused="another model"), pods=(running(2, "a2"),)), NOW).status
    assert later is not None
    assert later["rideRefused"] == "another model"


def after(attempt: int, status: dict[str, Any], result: WorkerResult | None, **values: Any) -> dict[str, Any]:
    """What is told of the job when attempt `attempt` has ended, after what was told before."""
    last = ended(attempt, 1, f"a{attempt}", result=result, rides=True, **values)
    told = decide(job(None, placed(f"a{attempt}") | status, pods=(last,)), NOW).status
    assert told is not None
    return {name: told[name] for name in ("countedAttempt", "rideLosses", "rideRefused") if name in told}


@pytest.mark.parametrize("ends", [(BROKEN,) * 3, (LOST,) * 3, (LOST, BROKEN, LOST), (BROKEN, LOST, BROKEN)])
def test_attempts_that_lose_their_engine_are_counted_and_after_three_the_job_rides_no_more(
    ends: tuple[WorkerResult, ...],
) -> None:
    first = after(1, {}, ends[0])
    second = after(2, first, ends[1])
    third = after(3, second, ends[2])
    assert (first["rideLosses"], second["rideLosses"]) == tuple({"attempts": n, "completed": 3} for n in (1, 2))
    assert "rideRefused" not in second
    assert third["rideRefused"] == (
        "3 attempts ended with RideLost or RideBroken while the job got no further, "
        f"the last with {ends[2].reason}: {ends[2].message}"
    )
    assert third["rideLosses"] == {"attempts": 3, "completed": 3}


def test_each_is_counted_once() -> None:
    once = after(1, {}, BROKEN)
    assert after(1, once, BROKEN) == once
    pods = tuple(ended(attempt, 1, f"a{attempt}", result=BROKEN, rides=True) for attempt in (1, 2, 3))
    told = decide(job(None, placed("a3") | once, pods=pods), NOW).status
    assert told is not None
    assert told["rideLosses"] == {"attempts": 3, "completed": 3}


def test_a_refusal_is_none_of_them() -> None:
    pods = tuple(ended(attempt, 1, "a1", result=each, rides=True) for attempt, each in enumerate((REFUSED, LOST), 1))
    told = decide(job(None, placed("a1"), pods=pods), NOW).status
    assert told is not None
    assert told["rideLosses"] == {"attempts": 1, "completed": 3}


@pytest.mark.parametrize("result", [LOST, BROKEN])
@pytest.mark.parametrize(("completed", "want"), [
    ((3, 4, 5), (1, 5)), ((3, 3, 4), (1, 4)), ((3, 4, 4), (2, 4)),
    # The last checkpoint may be further back.
    ((5, 3, 4), (3, 5)), ((5, 0, 5), (3, 5)),
])  # fmt: skip
def test_a_job_that_gets_further_rides_on(
    completed: tuple[int, ...], want: tuple[int, int], result: WorkerResult
) -> None:
    told: dict[str, Any] = {}
    for attempt, done in enumerate(completed, 1):
        told = after(attempt, told, result.model_copy(update={"completed": done}))
    assert (told["rideLosses"]["attempts"], told["rideLosses"]["completed"]) == want
    assert ("rideRefused" in told) == (want[0] == 3)


@pytest.mark.parametrize("between", [{"result": None}, {"result": BROKEN, "deletion_deadline": NOW + 30}])
def test_what_says_nothing_of_its_engine_neither_counts_nor_ends_the_row(between: dict[str, Any]) -> None:
    before = after(2, after(1, {}, BROKEN), BROKEN)
    told = after(3, before, **between)
    assert told == {**before, "countedAttempt": 3}
    assert after(4, told, BROKEN)["rideLosses"]["attempts"] == 3


@pytest.mark.parametrize("result", [LOST, BROKEN, REFUSED])
@pytest.mark.parametrize(
    ("spec", "rides"), [(None, False), ({"template": {"spec": {"containers": [{"name": "mine", "image": "x"}]}}}, True)]
)
def test_only_rowens_own_workers_with_a_seat_are_believed(
    spec: dict[str, Any] | None, rides: bool, result: WorkerResult
) -> None:
    decision = decide(job(spec, placed(), pods=(ended(1, 1, result=result, rides=rides),)), NOW)
    assert decision.status is not None
    assert decision.status["failures"] == 1
    assert "rideRefused" not in decision.status
    assert "rideLosses" not in decision.status


@pytest.mark.parametrize(
    ("attached", "gate_open", "want"),
    [(True, False, ("False", "Riding")), (True, True, ("False", "Riding")), (False, True, ("Unknown", "NotAttached"))],
)
def test_a_closed_gate_stops_nobody_who_rides(attached: bool, gate_open: bool, want: tuple[str, str]) -> None:
    rider = tenant(mode="CoServe", attached=attached)
    told = report(device(gateOpen=gate_open, tenants=[rider]))
    assert said(riding(pods=(running(),), reports=(told,)), "Preempted") == want
