"""When an assignment is kept, renewed or withdrawn."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import (
    LEASE,
    NOW,
    OVERDUE,
    POLICY,
    device,
    job,
    node,
    not_started,
    outcome,
    placed,
    pod,
    run,
    running,
    tenant,
)

from rowen.crds.names import PROGRESS_SECONDS
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History, Track
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff, kept, next_backoff
from rowen.scheduler.monitor.lease import Loss, Reason


def track(view: Any, **fields: Any) -> Track:
    placement = view.placement
    base = Track(placement.id, f"{view.name}-1", "class", ("cpu",), placement.time, NOW, 0, 0.0)
    return replace(base, **fields)


def test_an_assignment_is_renewed_from_the_report() -> None:
    found = outcome(run(node("n"), placed(job("j"), "n", renewed=NOW - 9)), "j")
    assert found.action is Action.KEEP
    assert found.placement is not None
    assert found.placement.renewed == NOW


@pytest.mark.parametrize(
    ("age", "action"),
    [(0, "keep"), (LEASE, "keep"), (OVERDUE, "keep"), (OVERDUE + 0.5, "revoke"), (600, "revoke")],
)
def test_a_node_is_lost_only_after_the_lease_and_its_grace(age: float, action: str) -> None:
    found = outcome(run(node("n", reported=NOW - age), placed(job("j"), "n", renewed=NOW - age)), "j")
    assert found.action == action


def test_a_node_that_is_gone_is_lost_when_the_written_lease_ends() -> None:
    assert outcome(run(placed(job("j"), "n", renewed=NOW - OVERDUE + 1)), "j").action is Action.KEEP
    lost = outcome(run(placed(job("j"), "n", renewed=NOW - 40)), "j")
    assert lost.loss is not None
    assert lost.loss.reason == "NodeLost"
    assert lost.message == "n: lease ran out: last heartbeat 40 s ago"


def test_a_withdrawn_job_is_placed_elsewhere_in_the_next_pass_only() -> None:
    view = placed(job("j"), "a", renewed=NOW - 40)
    world = [node("a", reported=NOW - 40), node("b")]
    assert outcome(run(*world, view), "j").placement is None
    again = outcome(run(*world, replace(view, placement=None)), "j")
    assert again.placement is not None
    assert again.placement.node == "b"


@pytest.mark.parametrize(
    ("world", "fields", "reason"),
    [
        (node("n", device("n", "other")), {}, "DeviceGone"),
        (node("n", device("n", refusal="OnlineService ns/s is gone")), {}, "HarvestDisabled"),
        (node("n"), {"suspended": True}, "Suspended"),
        (node("n", ready=False), {}, "NodeLost"),
    ],
)
def test_what_takes_an_assignment_away(world: Any, fields: dict[str, Any], reason: str) -> None:
    found = outcome(run(world, replace(placed(job("j"), "n"), **fields)), "j")
    assert found.loss is not None
    assert found.loss.reason == reason


def test_an_assignment_whose_pod_cannot_start_is_withdrawn_and_its_node_waits() -> None:
    decision = run(node("n"), not_started(placed(job("j"), "n")))
    found = outcome(decision, "j")
    assert (found.action, found.placement) == (Action.REVOKE, None)
    assert found.loss is not None
    assert (found.loss.reason, found.loss.withdrawn) == ("NotStarted", True)
    assert found.message == "n: ImagePullBackOff: no such image"
    assert decision.backoffs == {("uid-j", "n"): Backoff(1, NOW + 30, "NotStarted")}


@pytest.mark.parametrize(("cause", "where"), [("Job", "n"), ("Node", "n"), ("Cluster", EVERY_NODE)])
def test_what_no_node_can_help_keeps_the_job_off_all_of_them(cause: Any, where: str) -> None:
    view = not_started(placed(job("j"), "n"), cause=cause)
    lost = run(node("n"), node("m"), view)
    assert lost.backoffs == {("uid-j", where): Backoff(1, NOW + 30, "NotStarted")}
    again = run(node("n"), node("m"), job("j"), history=History(backoffs=lost.backoffs))
    found = outcome(again, "j")
    if where == EVERY_NODE:
        refusal = "back-off until 13:47:10Z after NotStarted (attempt 1 on all nodes)"
        assert [candidate.refusal for candidate in found.candidates] == [refusal] * 2
    else:
        assert found.placement is not None
        assert found.placement.node == "m"


def test_a_backoff_from_all_nodes_ends_and_no_other_job_has_it() -> None:
    history = History(backoffs={("uid-j", EVERY_NODE): Backoff(1, NOW, "NotStarted")})
    assert outcome(run(node("n"), job("j"), history=history), "j").action is Action.PLACE
    history = History(backoffs={("uid-j", EVERY_NODE): Backoff(1, NOW + 1, "NotStarted")})
    decision = run(node("n"), job("j"), job("k"), history=history)
    assert (outcome(decision, "j").action, outcome(decision, "k").action) == (Action.WAIT, Action.PLACE)


def test_what_was_said_of_an_older_assignment_harms_no_newer_one() -> None:
    view = not_started(placed(job("j"), "n"), "id-older")
    assert outcome(run(node("n"), view), "j").action is Action.KEEP
    waiting = not_started(job("k"))
    assert outcome(run(node("n"), waiting), "k").action is Action.PLACE


@pytest.mark.parametrize(
    ("world", "fields", "reason"),
    [
        (node("n"), {"suspended": True}, "Suspended"),
        (node("n", ready=False), {}, "NodeLost"),
        (node("n", reported=NOW - 40), {"renewed": NOW - 40}, "NodeLost"),
        (node("n", reported=NOW - LEASE - 1), {"renewed": NOW - LEASE - 1}, "NotStarted"),
        (node("n", device("n", "other")), {}, "DeviceGone"),
        (node("n", device("n", refusal="OnlineService ns/s is gone")), {}, "HarvestDisabled"),
    ],
)
def test_the_cause_is_told_where_a_pod_cannot_start_because_of_it(
    world: Any, fields: dict[str, Any], reason: str
) -> None:
    placement = {name: value for name, value in fields.items() if name == "renewed"}
    view = not_started(replace(placed(job("j"), "n", **placement), suspended="suspended" in fields))
    found = outcome(run(world, view), "j")
    assert found.loss is not None
    assert found.loss.reason == reason


def test_a_pod_that_cannot_start_is_told_before_the_sla() -> None:
    view = not_started(placed(job("j", sla=0.3), "n"))
    history = History(tracks={"uid-j": track(view, shortfall=150.0, fraction=0.2)})
    assert outcome(run(node("n"), view, history=history), "j").loss == Loss(
        Reason.NOT_STARTED, "n: ImagePullBackOff: no such image"
    )


@pytest.mark.parametrize("fields", [{"finished": True}, {"deleting": True}])
def test_nothing_is_withdrawn_from_a_job_on_its_way_out(fields: dict[str, Any]) -> None:
    decision = run(node("n"), replace(not_started(placed(job("j"), "n")), **fields))
    assert outcome(decision, "j").action is Action.HOLD
    assert decision.backoffs == {}


def test_a_job_that_runs_on_a_node_that_is_not_ready_stays_while_reports_come() -> None:
    view = placed(job("j"), "n")
    world = node("n", device("n", tenants=(tenant(view),)), ready=False)
    assert outcome(run(world, view, pod(view, "n")), "j").action is Action.KEEP


@pytest.mark.parametrize(("since", "action"), [(5, "keep"), (31, "revoke")])
def test_an_engine_may_be_away_for_a_while(since: float, action: str) -> None:
    history = History(absences={("n", "cpu0"): NOW - since})
    world = node("n", device("n", attached=False))
    assert outcome(run(world, placed(job("j"), "n"), history=history), "j").action == action


def test_the_assignment_follows_the_device_that_the_kubelet_chose() -> None:
    view = placed(job("j"), "n", "cpu0")
    world = node("n", device("n", "cpu0"), device("n", "cpu1", tenants=(tenant(view),)))
    found = outcome(run(world, view, pod(view, "n", "cpu0")), "j")
    assert found.placement is not None
    assert (found.placement.id, found.placement.devices) == ("id-j", ("cpu1",))


@pytest.mark.parametrize(
    ("missing", "placed_for", "seen", "evicted"),
    [
        (119.9, 600, 0, False),
        (120, 600, 0, True),
        (600, 119, 0, False),
        (0, 600, 0, False),
        (600, 600, 3 * PROGRESS_SECONDS + 1, False),
    ],
)
def test_the_monitor_waits_for_dwell_and_a_large_shortfall(
    missing: float, placed_for: float, seen: float, evicted: bool
) -> None:
    view = placed(job("j", sla=0.3), "n", at=NOW - placed_for)
    history = History(tracks={"uid-j": track(view, shortfall=missing, fraction=0.2, time=NOW - seen)})
    found = outcome(run(node("n"), node("z"), view, history=history), "j")
    assert (found.action is Action.REVOKE) == evicted
    if evicted:
        assert found.message == (
            "n/cpu0: 120 s of the throughput of its SLA 0.30 are missing, "
            "measured 0.20 over the last 60 s (predicted 0.80)"
        )


def test_of_two_violators_on_a_device_the_last_in_order_goes() -> None:
    first, second = placed(job("a", sla=0.3, priority=1), "n"), placed(job("b", sla=0.3), "n")
    tracks = {view.uid: track(view, shortfall=150.0, fraction=0.2) for view in (first, second)}
    decision = run(*running(node("n"), first, second), history=History(tracks=tracks))
    assert outcome(decision, "a").action is Action.KEEP
    assert outcome(decision, "b").action is Action.REVOKE


def test_an_eviction_begins_a_backoff_that_doubles() -> None:
    view = placed(job("j", sla=0.3), "n")
    history = History(
        tracks={"uid-j": track(view, shortfall=150.0, fraction=0.2)},
        backoffs={("uid-j", "n"): Backoff(2, NOW - 200, "SLAViolated")},
    )
    assert run(node("n"), node("z"), view, history=history).backoffs["uid-j", "n"] == Backoff(
        3, NOW + 120, "SLAViolated"
    )


@pytest.mark.parametrize("fields", [{"suspended": True}])
def test_a_suspended_job_comes_back_without_backoff(fields: dict[str, Any]) -> None:
    assert run(node("n"), replace(placed(job("j"), "n"), **fields)).backoffs == {}


def test_backoffs_grow_to_the_limit_and_are_forgotten() -> None:
    backoff, waits = None, []
    for _ in range(10):
        backoff = next_backoff(backoff, "SLAViolated", "n", NOW, POLICY)
        waits.append(backoff.until - NOW)
    assert waits[:4] == [30, 60, 120, 240]
    assert waits[-1] == 1800
    assert backoff is not None
    held = {("j", "n"): backoff}
    assert kept(held, {"j"}, {"n"}, backoff.until + 1799, POLICY) == held
    assert kept(held, {"j"}, {"n"}, backoff.until + 1800, POLICY) == {}


def test_a_backoff_from_all_nodes_has_a_lower_limit_and_is_remembered_like_a_nodes() -> None:
    held = Backoff(3, NOW, "NotStarted")
    waits = [next_backoff(replace(held, count=count), "NotStarted", EVERY_NODE, NOW, POLICY) for count in (3, 4, 40)]
    assert [backoff.until - NOW for backoff in waits] == [240, 300, 300]
    low = POLICY.model_copy(update={"backoff_limit_seconds": 100.0})
    assert next_backoff(held, "NotStarted", EVERY_NODE, NOW, low).until == NOW + 100
    all_ = {("j", EVERY_NODE): held}
    assert kept(all_, {"j"}, {"n"}, NOW + 1799, POLICY) == all_
    assert kept(all_, {"j"}, {"n"}, NOW + 1800, POLICY) == {}


@pytest.mark.parametrize(
    ("jobs", "nodes", "left", "remembered"),
    [({"j"}, {"n"}, -1, True), ({"k"}, {"n"}, 1, False), ({"j"}, {"m"}, 1, True), ({"j"}, {"m"}, 0, False)],
)
def test_backoffs_of_what_is_gone_are_forgotten(jobs: set[str], nodes: set[str], left: float, remembered: bool) -> None:
    """A node may come back under its name while the wait lasts; a job's UID never does."""
    held = {("j", "n"): Backoff(3, NOW + left, "SLAViolated")}
    assert (kept(held, jobs, nodes, NOW, POLICY) == held) == remembered


def test_a_finished_job_gives_its_place_to_the_next() -> None:
    done = replace(placed(job("a"), "n"), finished=True)
    decision = run(node("n", slots=1), done, job("b"))
    assert outcome(decision, "a").action is Action.HOLD
    assert outcome(decision, "b").action is Action.PLACE


def test_a_job_that_is_being_deleted_holds_its_place_once() -> None:
    going = replace(placed(job("a"), "n"), deleting=True)
    decision = run(node("n"), going, pod(going, "n"), job("b"), job("c"))
    assert outcome(decision, "b").action is Action.PLACE
    assert outcome(decision, "c").action is Action.WAIT


def test_a_withdrawn_place_is_free_in_the_same_pass_and_told_once() -> None:
    gone = replace(placed(job("a"), "n"), suspended=True)
    decision = run(node("n", slots=1), gone, job("b"))
    assert [(entry.job.name, entry.action) for entry in decision.outcomes] == [
        ("a", Action.REVOKE),
        ("b", Action.PLACE),
    ]


def test_a_job_that_is_being_deleted_is_told_once() -> None:
    decision = run(node("n"), replace(placed(job("a"), "n"), deleting=True))
    assert [entry.action for entry in decision.outcomes] == [Action.HOLD]


@pytest.mark.parametrize(
    ("running", "attached", "action"),
    [
        (True, None, Action.KEEP), (True, False, Action.KEEP), (False, True, Action.KEEP),
        (False, False, Action.REVOKE), (False, None, Action.REVOKE),
    ],
)  # fmt: skip
def test_a_pod_that_runs_after_all_has_started(running: bool, attached: bool | None, action: Action) -> None:
    """The node reports a pod with a device, also while its image is pulled."""
    view = not_started(placed(job("j"), "n"))
    own = replace(pod(view, "n"), running=running)
    entry = replace(tenant(view), attached=bool(attached))
    world = node("n", device("n", tenants=() if attached is None else (entry,)))
    assert outcome(run(world, view, own), "j").action is action


def test_the_pod_of_an_older_assignment_shows_nothing() -> None:
    view = not_started(placed(job("j"), "n"))
    world = node("n", device("n", tenants=(tenant(view),)))
    assert outcome(run(world, view, pod(view, "n", assignment="id-older")), "j").action is Action.REVOKE
