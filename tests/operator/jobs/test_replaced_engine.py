"""A batch in an engine that is replaced: its pod is, too."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import BATCH, ENGINE, NOW, TEMPLATE, ended, riding, running

from rowen.crds.job.worker import WorkerResult
from rowen.crds.names import HEARTBEAT_SECONDS
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.pods.view import PodView

OTHERS = [
    EngineAddress("http://10.0.0.8:8000", "chat-b"),
    EngineAddress(ENGINE.url, "chat-b"),
    EngineAddress("http://10.0.0.8:8000", ENGINE.pod),
]
UNNAMED = EngineAddress(ENGINE.url)
"""As the operator of the release before has told it."""


def lost(reason: str) -> WorkerResult:
    return WorkerResult(reason=reason, message="no engine for 120 s", unit="rows", completed=3, total=9)


def state(snapshot: JobSnapshot) -> tuple[str, str]:
    """Of its condition Running."""
    status = decide(snapshot, NOW).status
    assert status is not None
    found = next(entry for entry in status["conditions"] if entry["type"] == "Running")
    return found["status"], found["reason"]


def asking(engine: EngineAddress | None, now: EngineAddress | None, **pod: Any) -> JobSnapshot:
    """A batch whose pod was told of the one engine, with the other one on the device now."""
    seated = running(rides=True, engine=engine, **pod)
    return riding({"batchInference": BATCH}, now, pods=(seated,), status={"attempts": 1})


@pytest.mark.parametrize(("told", "now"), [(ENGINE, ENGINE), (ENGINE, None), (UNNAMED, ENGINE), (None, ENGINE)])
def test_a_batch_stays_with_its_engine_also_while_that_is_away(
    told: EngineAddress | None, now: EngineAddress | None
) -> None:
    snapshot = asking(told, now)
    decision = decide(snapshot, NOW)
    assert (decision.removals, decision.children) == ((), ())
    assert state(snapshot)[0] == "True"
    # Nobody wakes it when the next one has an address.
    assert decision.requeue_seconds == (HEARTBEAT_SECONDS if now is None else None)


@pytest.mark.parametrize("now", OTHERS)
@pytest.mark.parametrize("phase", [{}, {"phase": "Pending", "started_at": None}])
def test_a_batch_whose_engine_was_replaced_asks_the_next_one(now: EngineAddress, phase: dict[str, Any]) -> None:
    snapshot = asking(ENGINE, now, **phase)
    decision = decide(snapshot, NOW)
    (removal,) = decision.removals
    told = f"was replaced by pod {now.pod}" if now.pod != ENGINE.pod else f", pod {now.pod}, has another address now"
    assert removal.pod == "job-1"
    assert removal.reason.removeprefix("the engine that it sends its rows to").strip() == told
    assert [note.reason for note in decision.notes] == ["Evicted"]
    # One at a time: both would write the output.
    assert decision.children == ()
    assert state(snapshot) == ("False", "Stopping")
    (child,) = decide(replace(snapshot, pods=()), NOW).children
    assert child["metadata"]["name"] == "job-2"
    assert child["metadata"]["annotations"]["rowen.dev/assignment"] == "a1"
    assert {"name": "ROWEN_ENGINE_URL", "value": now.url} in child["spec"]["containers"][0]["env"]


def test_engines_that_are_replaced_over_a_batch_which_gets_no_further_are_counted() -> None:
    """It may be a row that ends them, with their pods."""
    told: dict[str, Any] = {"progress": {"completed": 3, "total": 9}}
    for attempt in (1, 2, 3):
        there = running(attempt, rides=True, engine=ENGINE)
        snapshot = riding({"batchInference": BATCH}, OTHERS[0], pods=(there,), status={"attempts": attempt, **told})
        first = decide(snapshot, NOW).status
        assert first is not None
        told = {
            name: first[name] for name in ("progress", "countedAttempt", "rideLosses", "rideRefused") if name in first
        }
        assert told["rideLosses"] == {"attempts": attempt, "completed": 3}
        # Its end is seen before the pod's deletion is, or after.
        for pod in (there, replace(there, deletion_deadline=NOW + 30), ended(attempt, 1, deletion_deadline=NOW + 30)):
            again = decide(
                riding({"batchInference": BATCH}, OTHERS[0], pods=(pod,), status={"attempts": attempt, **told}), NOW
            )
            assert again.status is not None
            assert again.status["rideLosses"] == told["rideLosses"]
        assert ("rideRefused" in first) == (attempt == 3)
    assert told["rideRefused"].startswith("3 attempts lost their engine while the job got no further")
    assert first["startFailure"]["reason"] == "RideLost"
    after = riding(
        {"batchInference": BATCH}, OTHERS[0], status={"attempts": 3, **told, "startFailure": first["startFailure"]}
    )
    assert decide(after, NOW).children == (), "it is for the scheduler to place it elsewhere"


def test_a_batch_that_gets_further_rides_on() -> None:
    losses = {"attempts": 2, "completed": 3}
    status = {"attempts": 3, "rideLosses": losses, "countedAttempt": 2, "progress": {"completed": 4, "total": 9}}
    there = running(3, rides=True, engine=ENGINE)
    told = decide(riding({"batchInference": BATCH}, OTHERS[0], pods=(there,), status=status), NOW).status
    assert told is not None
    assert told["rideLosses"] == {"attempts": 1, "completed": 4}
    assert not {"startFailure", "rideRefused"} & told.keys()


@pytest.mark.parametrize("values", [
    {"exit_code": 0}, {"exit_code": 1}, {"exit_code": 1, "result": lost("RideBroken")},
    {"exit_code": 1, "result": lost("RideLost")},
])  # fmt: skip
def test_that_its_engine_was_replaced_is_no_failure_of_a_batch(values: dict[str, Any]) -> None:
    last = ended(1, deletion_deadline=NOW + 30, rides=True, engine=ENGINE, **values)
    decision = decide(riding({"batchInference": BATCH}, OTHERS[0], pods=(last,)), NOW)
    assert len(decision.children) == 1
    assert decision.status is not None
    assert decision.status["failures"] == 0
    assert not {"startFailure", "rideLosses", "rideRefused"} & decision.status.keys()


@pytest.mark.parametrize(
    ("spec", "pod"),
    [
        (None, {"rides": True}),
        (None, {"rides": True, "engine": ENGINE}),
        ({"batchInference": BATCH}, {"engine": ENGINE}),
        ({"template": TEMPLATE}, {"rides": True, "engine": ENGINE}),
    ],
)
def test_only_batches_that_ride_send_rows_to_an_engine(spec: dict[str, Any] | None, pod: dict[str, Any]) -> None:
    snapshot = riding(spec, OTHERS[0], pods=(running(**pod),))
    assert decide(snapshot, NOW).removals == ()


def test_a_pod_of_an_older_assignment_goes_for_that_reason() -> None:
    old: PodView = running(1, "a0", rides=True, engine=ENGINE)
    (removal,) = decide(riding({"batchInference": BATCH}, OTHERS[0], pods=(old,)), NOW).removals
    assert "its assignment was withdrawn" in removal.reason


def test_an_engine_that_is_replaced_over_a_suspended_batch_is_no_loss() -> None:
    there = running(rides=True, engine=ENGINE)
    snapshot = riding({"batchInference": BATCH, "suspend": True}, OTHERS[0], pods=(there,), status={"attempts": 1})
    decision = decide(snapshot, NOW)
    assert [removal.reason for removal in decision.removals] == ["the job is suspended"]
    assert decision.status is not None
    assert not {"rideLosses", "rideRefused", "startFailure"} & decision.status.keys()
