"""What takes an assignment away, at each bound."""

from typing import Any

import pytest
from scheduler.builders import LEASE, NOW, device, job, node, outcome, placed, pod, run, tenant

from rowen.crds.names import PROGRESS_SECONDS
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History, Track
from rowen.scheduler.snapshot import JobView

STALE = 3 * PROGRESS_SECONDS


def shortfall(view: JobView, **changed: Any) -> History:
    """The job is below its SLA, and 150 s of that throughput are missing."""
    assert view.placement is not None
    fields = {"assignment": view.placement.id, "shortfall": 150.0, "fraction": 0.2, **changed}
    base: dict[str, Any] = {"pod": "p", "workload": "class", "device_types": ("cpu",), "tokens": 0, "granted": 0.0}
    times = {"since": view.placement.time, "time": NOW}
    return History(tracks={view.uid: Track(**{**base, **times, **fields})})


def test_who_is_on_a_node_that_is_not_ready_is_told_by_its_report() -> None:
    view, other = placed(job("j"), "n"), job("other")
    silent = node("n", device("n", tenants=(tenant(other),)), ready=False)
    for parts in ([view, pod(view, "n")], [view]):
        found = outcome(run(silent, *parts), "j")
        assert found.loss is not None
        assert found.message == "n: node is not Ready and the job does not run there"


@pytest.mark.parametrize(("age", "action"), [(LEASE, Action.REVOKE), (LEASE + 0.1, Action.KEEP)])
def test_a_report_that_is_too_old_takes_nothing_away(age: float, action: Action) -> None:
    """Until the lease is over the node may report again."""
    world = node("n", device("n", "other"), reported=NOW - age)
    assert outcome(run(world, placed(job("j"), "n", renewed=NOW - age)), "j").action is action


@pytest.mark.parametrize(("ids", "gone"), [(("cpu0", "cpu1"), "cpu1"), (("cpu1", "cpu0"), "cpu1")])
def test_one_device_of_several_is_enough(ids: tuple[str, str], gone: str) -> None:
    lost = outcome(run(node("n"), placed(job("j", devices=2), "n", *ids)), "j")
    assert lost.message == f"n/{gone}: the node no longer reports this device"


@pytest.mark.parametrize(
    ("attached", "since", "action"),
    [(False, 30, Action.KEEP), (False, 30.5, Action.REVOKE), (True, 100, Action.KEEP)],
)
def test_an_engine_may_be_away_for_half_a_minute(attached: bool, since: float, action: Action) -> None:
    history = History(absences={("n", "cpu0"): NOW - since})
    world = node("n", device("n", attached=attached))
    assert outcome(run(world, placed(job("j"), "n"), history=history), "j").action is action


def test_a_node_that_never_reported_renews_nothing() -> None:
    found = outcome(run(node("n", reported=None), placed(job("j"), "n", renewed=NOW - 5, duration=20.0)), "j")
    assert found.placement is not None
    assert (found.placement.renewed, found.placement.duration) == (NOW - 5, 20.0)


def test_devices_that_a_pod_is_meant_for_do_not_count_before_the_report() -> None:
    view = placed(job("j"), "n", "cpu0")
    found = outcome(run(node("n", device("n", "cpu0"), device("n", "cpu1")), view, pod(view, "n", "cpu1")), "j")
    assert found.placement is not None
    assert found.placement.devices == ("cpu0",)


def test_an_assignment_that_stays_is_told_with_its_prediction() -> None:
    found = outcome(run(node("n"), placed(job("j"), "n")), "j")
    assert found.message == "placed on n/cpu0: predicted 0.80 of its throughput alone"


@pytest.mark.parametrize(
    ("changed", "action"),
    [
        ({}, Action.REVOKE),
        ({"shortfall": 120.0}, Action.REVOKE),
        ({"shortfall": 119.9}, Action.KEEP),
        ({"time": NOW - STALE}, Action.REVOKE),
        ({"time": NOW - STALE - 0.1}, Action.KEEP),
        ({"assignment": "older"}, Action.KEEP),
        ({"fraction": None}, Action.KEEP),
        ({"fraction": 0.3}, Action.KEEP),
    ],
)
def test_what_counts_as_a_shortfall(changed: dict[str, Any], action: Action) -> None:
    view = placed(job("j", sla=0.3), "n")
    assert outcome(run(node("n"), node("z"), view, history=shortfall(view, **changed)), "j").action is action


@pytest.mark.parametrize(("stayed", "action"), [(119, Action.KEEP), (120, Action.REVOKE)])
def test_a_job_stays_for_its_dwell(stayed: float, action: Action) -> None:
    view = placed(job("j", sla=0.3), "n", at=NOW - stayed)
    assert outcome(run(node("n"), node("z"), view, history=shortfall(view)), "j").action is action


def test_a_job_that_gave_up_its_sla_is_not_evicted_for_it() -> None:
    view = placed(job("j"), "n")
    assert outcome(run(node("n"), node("z"), view, history=shortfall(view)), "j").action is Action.KEEP


def test_a_job_without_a_track_is_not_evicted() -> None:
    assert outcome(run(node("n"), node("z"), placed(job("j", sla=0.3), "n")), "j").action is Action.KEEP


def changed(view: JobView, **fields: Any) -> History:
    """Its node's reports have fallen short of the promise for 120 s, and let expect less than the SLA."""
    fields = {"shortfall": 0.0, "fraction": 0.25, "drift": 120.0, "expected": 0.2, **fields}
    return shortfall(view, **fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "PatternChanged"),
        ({"fraction": 0.29}, "PatternChanged"),
        ({"fraction": 0.3}, None),
        ({"fraction": None}, None),
        ({"drift": 119.9}, None),
        ({"expected": 0.3}, None),
        ({"expected": None}, None),
        ({"time": NOW - STALE - 0.1}, None),
        ({"since": NOW - 119.9}, None),
        ({"assignment": "another"}, None),
        ({"shortfall": 150.0, "fraction": 0.2}, "SLAViolated"),
        ({"shortfall": 119.9, "fraction": 0.2}, "PatternChanged"),
    ],
)
def test_a_changed_pattern_ends_an_assignment_before_too_much_is_missing(
    fields: dict[str, Any], reason: str | None
) -> None:
    view = placed(job("j", sla=0.3), "n")
    found = outcome(run(node("n"), node("z"), view, pod(view, "n"), history=changed(view, **fields)), "j")
    assert (found.loss.reason if found.loss else None) == reason


def test_a_changed_pattern_is_told_and_backed_off_from() -> None:
    view = placed(job("j", sla=0.3), "n")
    decision = run(node("n"), node("z"), view, pod(view, "n"), history=changed(view))
    message = "n/cpu0: reports now let expect 0.20 < SLA 0.30, measured 0.25 (predicted 0.80)"
    assert outcome(decision, "j").message == message
    assert decision.backoffs["uid-j", "n"].reason == "PatternChanged"


def test_a_job_without_sla_stays_whatever_its_node_does() -> None:
    view = placed(job("j"), "n")
    found = outcome(run(node("n"), node("z"), view, pod(view, "n"), history=changed(view)), "j")
    assert found.action is Action.KEEP


def test_why_the_throughput_is_short_is_told() -> None:
    view = placed(job("j", sla=0.3), "n")
    history = shortfall(view, granted_part=0.5, speed=0.4)
    assert outcome(run(node("n"), node("z"), view, pod(view, "n"), history=history), "j").message == (
        "n/cpu0: 150 s of the throughput of its SLA 0.30 are missing, measured 0.20 over the last 60 s "
        "(predicted 0.80; it could run 0.50 of the time, at 0.40 of its speed alone)"
    )
