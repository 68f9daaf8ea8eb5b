"""What the operator's conditions of a job say, and the one word derived from all of them."""

from typing import Any

import pytest
from operator_builders import NOW, condition, device, ended, job, pod, report, running, tenant

from rowen.crds.common import Condition
from rowen.crds.job.worker import WorkerResult
from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.timestamps import rfc3339
from rowen.operator.jobs.conditions import (
    conditions,
    describe_end,
    failure_reason,
    merged,
    preempted,
    running_of,
    state,
    waiting,
)
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.say import Say

DONE = WorkerResult(reason="Completed", message="all rows", unit="rows", completed=9, total=9)
BAD = WorkerResult(reason="DiskFull", message="no room", unit="rows", completed=1, total=9)


def some(**statuses: str) -> list[Condition]:
    """Conditions by type: a status, and behind a colon a reason."""
    found = []
    for type_, told in statuses.items():
        status, _, reason = told.partition(":")
        found.append(Condition.from_wire(condition(type_, status, reason or "Test")))
    return found


def test_the_conditions_are_four_in_a_fixed_order_with_their_times() -> None:
    told = condition("Running", "True", "Running", since=NOW - 50)
    says = {
        "Finished": Say("False", "Unfinished"), "Preempted": Say("False", "GateOpen"),
        "Running": Say("True", "Running", "m" * 40_000), "Suspended": Say("False", "NotSuspended"),
    }  # fmt: skip
    found = conditions(job(status={"conditions": [told]}, generation=7), NOW, says)
    assert [one.type for one in found] == ["Suspended", "Running", "Preempted", "Finished"]
    assert found[1].message == "m" * 32768
    assert found[1].last_transition_time == rfc3339(NOW - 50)
    assert found[0].last_transition_time == rfc3339(NOW, "seconds")
    assert {one.observed_generation for one in found} == {7}


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (running(2), ("True", "Running", "attempt 2 runs as pod job-2 on node node-1")),
        (
            running(2, problem=Problem("X", "sidecar")),
            ("True", "Running", "attempt 2 runs as pod job-2 on node node-1"),
        ),
        (pod(problem=Problem("Unschedulable", "no node")), ("False", "Unschedulable", "no node")),
        (pod(), ("False", "Starting", "pod job-1 is starting")),
    ],
)
def test_running(view: PodView, told: tuple[str, str, str]) -> None:
    said = running_of(view)
    assert (said.status, said.reason, said.message) == told


KILLED = "; it was killed: `kubectl describe pod job-1` may say by whom, in its events"


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (ended(3, 1, result=BAD), "attempt 3: DiskFull: no room"),
        (ended(1, 2), "attempt 1: Error (exit code 2)"),
        (ended(1, 1, end_reason=""), "attempt 1: Error (exit code 1)"),
        (pod(phase="Failed", end_reason="Evicted"), "attempt 1: Evicted"),
        (ended(), "attempt 1: Completed (exit code 0)"),
        (ended(1, 1, end_message=" why \n"), "attempt 1: Error (exit code 1): why"),
        (ended(1, 1, end_message="a" + "b" * 1024), f"attempt 1: Error (exit code 1): {'b' * 1024}"),
        (ended(1, 137), f"attempt 1: Error (exit code 137){KILLED}"),
        (ended(1, 137, end_reason="OOMKilled"), "attempt 1: OOMKilled (exit code 137)"),
        (ended(1, 136), "attempt 1: Error (exit code 136)"),
    ],
)
def test_how_an_attempt_ended_is_a_sentence(view: PodView, told: str) -> None:
    assert describe_end(view) == told


def test_a_wait_tells_the_end_and_how_many_failed() -> None:
    told = "attempt 1: Error (exit code 1); attempts failed so far: 4"
    assert waiting(ended(1, 1), 4) == Say("False", "BackOff", told)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (None, "Failed"),
        (ended(1, 64, result=BAD), "DiskFull"),
        (ended(1, 1, result=DONE), "Failed"),
        (ended(1, 137, end_reason="OOMKilled"), "OOMKilled"),
        (ended(1, 137, end_reason="OOMKilled", result=DONE), "OOMKilled"),
        (ended(1, 137, end_reason="OOMKilled", result=BAD), "DiskFull"),
        (ended(1, 1), "Failed"),
    ],
)
def test_the_reason_of_a_failure(view: PodView | None, reason: str) -> None:
    assert failure_reason(view) == reason


def seen(*devices: dict[str, Any], age: float = 0.0, view: PodView | None = None) -> tuple[str, str, str]:
    told = (report(*devices, time=NOW - age),) if devices else ()
    said = preempted(job(reports=told), view or running(), NOW)
    return said.status, said.reason, said.message


def on(number: int, *, gate_open: bool = True, **values: Any) -> dict[str, Any]:
    return device(f"cpu{number}", gateOpen=gate_open, tenants=[tenant(**values)])


UNHEARD = "Unknown", "NoReport", "no fresh report of node node-1 names pod job-1"
STOPPED = "stopped 5 times so far by pod job-1's node"


@pytest.mark.parametrize(
    ("devices", "age", "told"),
    [
        ((), 0, UNHEARD),
        ((device(tenants=[tenant("job-2")]),), 0, UNHEARD),
        ((on(1, preemptions=5),), NODE_LEASE_SECONDS, ("False", "GateOpen", STOPPED)),
        ((on(1, preemptions=5),), NODE_LEASE_SECONDS + 1, UNHEARD),
        ((on(1, attached=False),), 0, ("Unknown", "NotAttached", "no process of pod job-1 is behind the gate yet")),
        ((on(1, preemptions=5), on(2, preemptions=3, attached=False)), 0, ("False", "GateOpen", STOPPED)),
        ((on(1, preemptions=3), on(2, preemptions=5, gate_open=False)), 0, ("True", "GateClosed", STOPPED)),
        ((on(1, preemptions=5, gate_open=False),), 0, ("True", "GateClosed", STOPPED)),
        ((on(1, preemptions=1),), 0, ("False", "GateOpen", "stopped once so far by pod job-1's node")),
        ((on(1, preemptions=0),), 0, ("False", "GateOpen", "stopped 0 times so far by pod job-1's node")),
    ],
)
def test_preempted_by_the_report_of_its_node(
    devices: tuple[dict[str, Any], ...], age: float, told: tuple[str, str, str]
) -> None:
    assert seen(*devices, age=age) == told


def test_what_there_is_of_its_device_beside_requests_is_told() -> None:
    def sharing(number: int) -> dict[str, Any]:
        place = on(number, preemptions=5, gate_open=False)
        return {**place, "spatial": {"share": 0.27, "openFraction": 0.25}}

    told = f"{STOPPED}; of late offline work might use 27% of the device beside requests, 25% of the time"
    assert seen(sharing(1)) == ("True", "GateClosed", told)
    assert seen({**sharing(1), "gateOpen": True}) == ("False", "GateOpen", told)
    # A job on several has no share of them.
    assert seen(sharing(1), sharing(2)) == ("True", "GateClosed", STOPPED)


@pytest.mark.parametrize("view", [None, pod(), ended()])
def test_what_does_not_run_is_not_preempted(view: PodView | None) -> None:
    assert preempted(job(reports=(report(on(1, gate_open=False)),)), view, NOW) == Say("False", "NotRunning")


@pytest.mark.parametrize(
    ("have", "word"),
    [
        ({}, "Pending"),
        ({"Finished": "True:Completed", "Suspended": "True"}, "Completed"),
        ({"Finished": "True:DiskFull", "Running": "True"}, "Failed"),
        ({"Finished": "False:Completed", "Running": "True"}, "Running"),
        ({"Suspended": "True", "Running": "True"}, "Suspended"),
        ({"Running": "True", "Preempted": "True", "Placed": "True"}, "Preempted"),
        ({"Running": "True", "Preempted": "Unknown"}, "Running"),
        ({"Preempted": "True"}, "Pending"),
        ({"Placed": "True"}, "Starting"),
        ({"Placed": "False", "Running": "False:BackOff"}, "Pending"),
        ({"Placed": "True", "Running": "False:BackOff"}, "BackOff"),
        ({"Placed": "True", "Running": "False:NotPlaced"}, "Starting"),
        ({"Placed": "True", "Running": "False:Finished"}, "Starting"),
        ({"Placed": "True", "Running": "False:Suspended"}, "Starting"),
    ],
)
def test_one_word_for_people(have: dict[str, str], word: str) -> None:
    assert state(some(**have)) == word


def test_the_conditions_of_others_stay() -> None:
    new = some(Running="True", Finished="False")
    found = merged(some(Placed="True", Running="False", SLAMet="True"), new)
    assert [(one.type, one.status) for one in found] == [
        ("Placed", "True"), ("SLAMet", "True"), ("Running", "True"), ("Finished", "False"),
    ]  # fmt: skip
