"""Which reports are worth a write."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.crds.harvest.node_harvest import NodeHarvestStatus
from rowen.crds.names import PROGRESS_SECONDS, REPORT_SECONDS
from rowen.crds.text.parts import packed
from rowen.node_agent.report.change import Written, due

GIB = 2**30
THEN = 1000.0
LATENCY = {"p50": 0.1, "p90": 0.2, "p95": 0.3, "p99": 0.4}


def available(*gib: int) -> str:
    return packed([each * GIB for each in gib], 100 * GIB)


def device(**changes: Any) -> dict[str, Any]:
    """A device with an engine, without a tenant."""
    return {
        "id": "cpu0", "type": "cpu", "memoryBytes": 100 * GIB, "harvestable": True, "gateOpen": True,
        "idleFraction": 0.5, "harvestedFraction": 0.25, "idles": ["0.5/3600s"],
        "preemptions": 7, "available": available(40, 60),
        "pool": {"fixed": 0, "used": 40 * GIB, "ahead": 10 * GIB, "offline": 0, "free": 50 * GIB},
        "online": {"pod": "shop/chat-0", "service": "chat", "attached": True,
                   "ttft": LATENCY, "tpot": LATENCY},
        **changes,
    }  # fmt: skip


def tenant(**changes: Any) -> dict[str, Any]:
    return {
        "pod": "lab/tune-1",
        "job": "tune",
        "attached": True,
        "completed": 5,
        "total": 10,
        "tokens": 100,
        **changes,
    }


def status(*devices: dict[str, Any], **changes: Any) -> NodeHarvestStatus:
    return NodeHarvestStatus.from_wire({"backend": "cpu", "devices": list(devices or [device()]), **changes})


def written(*devices: dict[str, Any]) -> Written:
    return Written(THEN, status(*devices))


def test_the_first_report_is_written() -> None:
    assert due(None, status(), THEN, 60.0)


@pytest.mark.parametrize(
    ("age", "window", "expected"),
    [(59.9, 60.0, False), (60.0, 60.0, True), (9.9, 10.0, False), (10.0, 10.0, True), (59.9, 600.0, False),
     (60.0, 600.0, True)],
)  # fmt: skip
def test_what_says_nothing_new_is_written_each_minute_or_window(age: float, window: float, expected: bool) -> None:
    assert due(written(), status(), THEN + age, window) is expected


@pytest.mark.parametrize(
    "after",
    [
        status(device(), device(id="cpu1")),
        status(device(id="cpu1")),
        status(device(harvestable=False)),
        status(device(memoryBytes=GIB)),
        status(device(online=None)),
        status(device(online={**device()["online"], "attached": False})),
        status(device(online={**device()["online"], "service": "other"})),
        status(device(tenants=[tenant()])),
        status(device(pool={**device()["pool"], "fixed": 1})),
        status(device(available=None)),
        status(device(idles=[])),
        status(backend="nvidia"),
    ],
)
def test_facts_are_written_at_once(after: NodeHarvestStatus) -> None:
    assert due(written(), after, THEN, 60.0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"attached": False}, True),
        ({"job": "other"}, True),
        ({"pod": "lab/tune-2"}, True),
        ({"backstops": 1}, True),
        ({"completed": 10}, True),
        ({"completed": 9, "tokens": 900, "grantedSeconds": 9.0, "preemptions": 9}, False),
        ({"completed": 0, "total": 0}, False),
    ],
)
def test_of_a_tenant_all_but_its_progress_is_a_fact(change: dict[str, Any], expected: bool) -> None:
    after = status(device(tenants=[tenant(**change)]))
    assert due(written(device(tenants=[tenant()])), after, THEN + PROGRESS_SECONDS - 0.1, 60.0) is expected


@pytest.mark.parametrize(
    ("attached", "age", "expected"),
    [(True, PROGRESS_SECONDS - 0.1, False), (True, PROGRESS_SECONDS, True), (False, PROGRESS_SECONDS, False)],
)
def test_while_offline_work_is_attached_its_progress_is_reported(attached: bool, age: float, expected: bool) -> None:
    one = device(tenants=[tenant(attached=attached)])
    assert due(written(one), status(one), THEN + age, 60.0) is expected


def latency(name: str, value: float) -> dict[str, Any]:
    return {**LATENCY, name: value}


@pytest.mark.parametrize(
    ("change", "much"),
    [
        ({"idleFraction": 0.54}, False),
        ({"idleFraction": 0.5625}, True),
        ({"idleFraction": 0.4375}, True),
        ({"harvestedFraction": 0.29}, False),
        ({"harvestedFraction": 0.3125}, True),
        ({"coveredSeconds": 45.1}, False),
        ({"coveredSeconds": 45.0}, True),
        ({"coveredSeconds": None}, False),
        ({"idles": ["0.54/3605s"]}, False),
        ({"idles": ["0.5625/3600s"]}, True),
        ({"online": {**device()["online"], "ttft": latency("p50", 0.124)}}, False),
        ({"online": {**device()["online"], "ttft": latency("p50", 0.126)}}, True),
        ({"online": {**device()["online"], "tpot": latency("p90", 0.14)}}, True),
        ({"online": {**device()["online"], "tpot": latency("p95", 0.2)}}, True),
        ({"available": available(50, 59)}, False),
        ({"available": available(50, 61)}, True),
        ({"pool": {**device()["pool"], "used": 44 * GIB, "free": 46 * GIB}}, False),
        ({"pool": {**device()["pool"], "offline": 5 * GIB, "free": 46 * GIB}}, True),
        ({"gateOpen": False, "busy": "AA==", "preemptions": 900}, False),
    ],
)  # fmt: skip
def test_figures_are_written_when_they_have_moved_by_much_and_no_sooner_than_progress(
    change: dict[str, Any], much: bool
) -> None:
    after = status(device(id="cpu1"), device(**change))
    before = written(device(id="cpu1"), device())
    assert not due(before, after, THEN + PROGRESS_SECONDS - 0.1, 60.0)
    assert due(before, after, THEN + PROGRESS_SECONDS, 60.0) is much


@given(st.floats(0.0, 200.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.booleans())
def test_no_report_is_older_than_a_minute_and_no_figure_is_off_by_more_for_longer(
    age: float, before: float, after: float, attached: bool
) -> None:
    tenants = [tenant()] if attached else []
    old = written(device(idleFraction=before, tenants=tenants))
    told = due(old, status(device(idleFraction=after, tenants=tenants)), THEN + age, 60.0)
    if age >= REPORT_SECONDS or (age >= PROGRESS_SECONDS and (attached or abs(after - before) >= 0.05)):
        assert told
    else:
        assert not told
