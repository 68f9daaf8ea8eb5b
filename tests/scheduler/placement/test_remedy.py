"""What is done for a job that falls short of its SLA: only what helps."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, device, job, node, outcome, placed, pod, running, tenant

from rowen.scheduler.decision import Action, Decision
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import PredictionError
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.snapshot import JobView, NodeView, PodView
from scheduler import builders


def short(*views: JobView, fraction: float = 0.2, **backoffs: Backoff) -> History:
    """The jobs have measured so much, and 150 s of the throughput of their SLA are missing."""
    tracks = {}
    for view in views:
        assert view.placement is not None
        tracks[view.uid] = Track(
            view.placement.id, "p", "class", ("cpu",), NOW - 600, NOW, 0, 0.0, shortfall=150.0, fraction=fraction
        )
    return History(tracks=tracks, backoffs={(view.uid, at): held for view in views for at, held in backoffs.items()})


def run(*parts: NodeView | JobView | PodView, history: History) -> Decision:
    """One pass; the pods of placed jobs run and are reported."""
    return builders.run(*running(*parts), history=history)


def actions(decision: Decision) -> dict[str, str]:
    return {found.job.name: str(found.loss.reason if found.loss else found.action) for found in decision.outcomes}


def test_a_job_that_falls_short_goes_where_it_is_better() -> None:
    view = placed(job("j", sla=0.3), "n")
    assert actions(run(node("n"), node("z"), view, history=short(view))) == {"j": "SLAViolated"}


def test_a_job_that_has_no_better_place_stays_and_says_so() -> None:
    view = placed(job("j", sla=0.3), "n")
    found = outcome(run(node("n"), node("z", device("z", idle=0.3)), view, history=short(view)), "j")
    assert found.action is Action.KEEP
    assert found.message == (
        "placed on n/cpu0: predicted 0.80 of its throughput alone; it falls short of its SLA and stays: no place "
        "on another node is better: z/cpu0: idle 0.30 < SLA 0.30 + margin 0.03 "
        "(nothing of its class is measured of late); up to 0.27 can be promised here"
    )


def test_a_job_on_the_only_node_says_that_there_is_no_other() -> None:
    """A device of its own node may be better: after an eviction it would keep away from the whole node."""
    view = placed(job("j", sla=0.3), "n", "g0")
    two = node("n", device("n", "g0", idle=0.2), device("n", "g1", idle=0.95))
    found = outcome(run(two, view, history=short(view)), "j")
    assert found.message.endswith("stays: no place on another node is better: there is no other node")


def test_a_job_whose_own_node_has_the_likeliest_places_says_so() -> None:
    """Of places so many are told as the API takes; `z` would be the 20th."""
    view = placed(job("j", sla=0.6), "n", "g00")
    wide = node("n", *(device("n", f"g{at:02}", idle=0.5) for at in range(20)))
    found = outcome(run(wide, node("z", device("z", idle=0.3)), view, history=short(view, fraction=0.4)), "j")
    assert found.message.endswith("no place on another node is better: the likeliest places are all on its own")


def test_of_two_that_fall_short_of_their_slas_the_later_one_makes_way() -> None:
    first, second = (placed(job(name, sla=0.3, created=at), "n") for name, at in (("b", 1.0), ("a", 2.0)))
    decision = run(node("n"), first, second, history=short(first, second))
    assert actions(decision) == {"b": "keep", "a": "MadeWay"}


def test_a_job_on_a_device_that_is_not_idle_any_more_is_told_of_and_stays() -> None:
    """It measured something a while ago; nothing is expected there, with or without its neighbour."""
    view, other = placed(job("j", sla=0.3), "n"), placed(job("other"), "n")
    decision = run(node("n", device("n", idle=0.0)), view, other, history=short(view))
    assert actions(decision) == {"j": "keep", "other": "keep"}


def test_a_place_that_has_failed_it_is_no_better_place() -> None:
    view = placed(job("j", sla=0.3), "n")
    held = Backoff(1, NOW + 60, "SLAViolated")
    assert actions(run(node("n"), node("z"), view, history=short(view, z=held))) == {"j": "keep"}
    over = Backoff(1, NOW, "SLAViolated")
    assert actions(run(node("n"), node("z"), view, history=short(view, z=over))) == {"j": "SLAViolated"}


@pytest.mark.parametrize(("fraction", "action"), [(0.0049, "SLAViolated"), (0.005, "keep")])
def test_a_job_that_makes_nothing_goes_in_any_case(fraction: float, action: str) -> None:
    view = placed(job("j", sla=0.3), "n")
    assert actions(run(node("n"), view, history=short(view, fraction=fraction))) == {"j": action}


def test_a_place_that_a_waiting_job_takes_is_no_better_place() -> None:
    view = placed(job("j", sla=0.3), "n")
    decision = run(node("n", slots=1), node("z", slots=1), view, job("w"), history=short(view))
    assert actions(decision) == {"w": "place", "j": "keep"}


def test_one_place_is_good_for_one() -> None:
    first, second = placed(job("a", sla=0.3), "m"), placed(job("b", sla=0.3), "n")
    closed = [node(name, slots=1) for name in ("m", "n", "z")]
    assert actions(run(*closed, first, second, history=short(first, second))) == {"a": "SLAViolated", "b": "keep"}


@pytest.mark.parametrize(("fraction", "action"), [(0.149, "SLAViolated"), (0.15, "keep")])
def test_a_best_effort_neighbour_makes_way_where_that_is_enough(fraction: float, action: str) -> None:
    """Alone on the device it gets twice as much: 0.3 of 0.15."""
    view, other = placed(job("j", sla=0.3), "n"), placed(job("other"), "n")
    decision = run(node("n"), node("z"), view, other, history=short(view, fraction=fraction))
    assert outcome(decision, "j").action == (Action.REVOKE if action == "SLAViolated" else Action.KEEP)
    if action == "keep":
        assert actions(decision)["other"] == "MadeWay"
        told = "n/cpu0: made way for ns/j, which measured 0.15 < its SLA 0.30 beside it"
        assert outcome(decision, "other").message == told
        assert outcome(decision, "j").message.endswith("it falls short of its SLA and stays: a neighbour makes way")
        assert decision.backoffs["uid-other", "n"].reason == "MadeWay"
    else:
        assert actions(decision)["other"] == "keep"


def test_memory_that_a_neighbour_gives_back_counts() -> None:
    """Alone it has all of its 4 GiB for all of the time: four times as much."""
    need = linear_need(4 * GIB)
    view, other = placed(job("j", sla=0.3, pool=4 * GIB, need=need), "n"), placed(job("other"), "n")
    lending = node("n", device("n", available=(4 * GIB,)))
    assert actions(run(lending, view, other, history=short(view, fraction=0.08)))["other"] == "MadeWay"
    assert actions(run(node("n"), view, other, history=short(view, fraction=0.08)))["other"] == "keep"


@pytest.mark.parametrize(
    ("fields", "action"),
    [({"priority": 1}, "keep"), ({"sla": 0.1}, "keep"), ({"priority": -1}, "MadeWay"), ({}, "MadeWay")],
)
def test_who_was_promised_something_or_goes_before_the_job_does_not_make_way(
    fields: dict[str, Any], action: str
) -> None:
    view, other = placed(job("j", sla=0.3), "n"), placed(job("other", **fields), "n")
    assert actions(run(node("n"), view, other, history=short(view)))["other"] == action


def test_no_more_neighbours_go_than_it_takes_the_last_first() -> None:
    """A third of the device to a half: 0.2 x 3 / 2."""
    view = placed(job("j", sla=0.3), "n")
    others = [placed(job(name, created=float(number)), "n") for number, name in enumerate("abc", 1)]
    decision = run(node("n", slots=4), view, *others, history=short(view))
    # Beside two of three it gets 0.2 x 4 / 3 = 0.27, beside one 0.4.
    assert actions(decision) == {"c": "MadeWay", "b": "MadeWay", "a": "keep", "j": "keep"}


def test_of_several_devices_only_the_neighbours_that_hold_it_up_go() -> None:
    """On g0 it has one neighbour, on g1 two: with two it is as fast as it wants once one of those is gone."""
    view = placed(job("j", sla=0.3, devices=2), "n", "g0", "g1")
    others = [placed(job("x", created=3.0), "n", "g0"), *(placed(job(name), "n", "g1") for name in "ab")]
    world = node("n", device("n", "g0"), device("n", "g1"), slots=8)
    decision = run(world, view, *others, history=short(view))
    assert actions(decision) == {"b": "MadeWay", "x": "keep", "a": "keep", "j": "keep"}


def test_who_is_on_his_way_out_already_is_waited_for() -> None:
    view, gone = placed(job("j", sla=0.3), "n"), job("gone")
    decision = run(node("n"), node("z"), view, pod(gone, "n", assignment="old"), history=short(view))
    assert actions(decision)["j"] == "keep"
    stranger = replace(pod(gone, "n", assignment="old"), job=None)
    assert actions(run(node("n"), node("z"), view, stranger, history=short(view))) == {"j": "SLAViolated"}


@pytest.mark.parametrize(("fraction", "action"), [(0.149, "SLAViolated"), (0.15, "keep")])
def test_who_is_being_deleted_is_on_his_way_out(fraction: float, action: str) -> None:
    """Alone it gets twice as much; another neighbour, without whom it would get as much, does not have to go."""
    view, gone = placed(job("j", sla=0.3), "n"), replace(placed(job("gone"), "n"), deleting=True)
    found = actions(run(node("n"), node("z"), view, gone, history=short(view, fraction=fraction)))
    assert found["j"] == action
    other = placed(job("other", created=5.0), "n")
    decision = run(node("n", slots=4), view, gone, other, history=short(view, fraction=0.25))
    assert (actions(decision)["j"], actions(decision)["other"]) == ("keep", "keep")


@pytest.mark.parametrize(("late", "action"), [(60, "keep"), (61, "SLAViolated")])
@pytest.mark.parametrize("deleting", [True, False])
def test_who_hangs_in_his_deletion_is_not_waited_for_for_ever(deleting: bool, late: float, action: str) -> None:
    view, gone = placed(job("j", sla=0.3), "n"), replace(placed(job("gone"), "n"), deleting=True)
    stuck = replace(pod(gone, "n", assignment=None if deleting else "old"), gone_by=NOW - late)
    parts = (view, gone, stuck) if deleting else (view, stuck)
    assert actions(run(node("n"), node("z"), *parts, history=short(view)))["j"] == action


@pytest.mark.parametrize(("attached", "action"), [(True, "MadeWay"), (False, "keep")])
def test_who_takes_nothing_yet_is_no_neighbour_of_what_was_measured(attached: bool, action: str) -> None:
    """Its image is still pulled: 0.2 was measured alone, so that without it there will be no more."""
    view, other = placed(job("j", sla=0.3), "n"), placed(job("other"), "n", at=NOW - 30)
    pulling = node("n", device("n", tenants=(replace(tenant(other), attached=attached),)))
    assert actions(run(pulling, view, other, history=short(view, fraction=0.2)))["other"] == action


def test_beside_one_who_runs_and_one_who_comes_as_many_go_as_will_be_in_the_way() -> None:
    """Beside `x` it measured 0.2, alone it would get 0.4: `new`, which takes nothing yet, would halve that."""
    view, runs, new = placed(job("j", sla=0.3), "n"), placed(job("x"), "n"), placed(job("new", created=5.0), "n")
    coming = node("n", device("n", tenants=(replace(tenant(new), attached=False),)), slots=4)
    decision = run(coming, view, runs, new, history=short(view, fraction=0.2))
    assert actions(decision) == {"x": "MadeWay", "new": "MadeWay", "j": "keep"}


@pytest.mark.parametrize(("beside", "action"), [(119, "keep"), (120, "SLAViolated")])
def test_a_change_of_neighbours_is_given_the_dwell_to_show(beside: float, action: str) -> None:
    view = placed(job("j", sla=0.3), "n")
    tracks = {uid: replace(track, beside=NOW - beside) for uid, track in short(view).tracks.items()}
    assert actions(run(node("n"), node("z"), view, history=History(tracks=tracks))) == {"j": action}


@pytest.mark.parametrize(("low", "action"), [(119.9, "place"), (120.0, "wait")])
def test_nobody_joins_who_falls_short_though_the_prediction_would_let_him(low: float, action: str) -> None:
    """Beside another it is predicted 0.4, which is above 0.3: but it measures 0.2 already."""
    view = placed(job("j", sla=0.3), "n")
    tracks = {uid: replace(track, shortfall=low) for uid, track in short(view).tracks.items()}
    decision = run(node("n"), view, job("w"), history=History(tracks=tracks))
    assert actions(decision) == {"w": action, "j": "keep"}
    if action == "wait":
        assert outcome(decision, "w").message.endswith("n/cpu0: ns/j falls short of its SLA 0.30 already")


def test_nobody_joins_who_falls_short_while_the_dwell_runs() -> None:
    """Else each who came would begin it anew, and nothing would ever be done."""
    view = placed(job("j", sla=0.3), "n")
    tracks = {uid: replace(track, beside=NOW - 30) for uid, track in short(view).tracks.items()}
    assert actions(run(node("n"), view, job("w"), history=History(tracks=tracks))) == {"w": "wait", "j": "keep"}


def test_who_makes_way_leaves_no_place_to_a_newcomer() -> None:
    """Alone it gets 0.2, beside another 0.1: `w` in the place of `b` would be no help. What is unsure is large."""
    view, other = placed(job("j", sla=0.14), "n"), placed(job("b"), "n")
    unsure = {"class": PredictionError(0.5, 0.0025, NOW)}
    history = replace(short(view, fraction=0.1), errors=unsure, time=NOW)
    decision = run(node("n", device("n", idle=0.9), slots=3), view, other, job("w"), history=history)
    assert actions(decision) == {"w": "wait", "b": "MadeWay", "j": "keep"}


def test_a_place_beside_one_that_falls_short_too_is_no_better_place() -> None:
    """`a` would go to `z`, but there `c` falls short by itself: both stay, and no neighbour makes way."""
    first, second = placed(job("a", sla=0.3), "m"), placed(job("c", sla=0.3, created=9.0), "z")
    decision = run(node("m", slots=1), node("z"), first, second, history=short(first, second))
    assert actions(decision) == {"a": "keep", "c": "keep"}
    assert "is better: z/cpu0: ns/c falls short" in outcome(decision, "a").message
    assert "no place on another node is better" in outcome(decision, "c").message


def _beside(view: JobView, views: list[JobView]) -> list[JobView]:
    return [each for each in views if each.placement and view.placement and each.placement.node == view.placement.node]


def _gains(view: JobView, views: list[JobView], low: Mapping[str, Track], gone: Collection[str]) -> bool:
    """Whether it stays, and keeps its SLA in the equal parts of those who stay, by what it measured beside all."""
    if view.uid not in low or view.uid in gone or view.sla is None:
        return False
    before = _beside(view, views)
    after = [each for each in before if each.uid not in gone]
    return (low[view.uid].fraction or 0.0) * len(before) / len(after) >= view.sla - 1e-9


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([None, 0.2, 0.4]), st.sampled_from([0.05, 0.15, 0.3, 0.6])), max_size=6),
    st.lists(st.sampled_from([0.2, 0.5, 0.9]), min_size=1, max_size=3),
)
def test_who_goes_is_replaced_by_something_better(jobs: list[tuple[float | None, float]], idles: list[float]) -> None:
    """Whoever goes for his SLA has a place of his own elsewhere; whoever makes way leaves one behind who gains."""
    nodes = [node(f"n{at}", device(f"n{at}", idle=idle), slots=3) for at, idle in enumerate(idles)]
    views = [placed(job(f"j{at}", sla=sla), f"n{at % len(nodes)}") for at, (sla, _) in enumerate(jobs)]
    found = [short(view, fraction=fraction) for view, (sla, fraction) in zip(views, jobs, strict=True) if sla]
    low = {uid: track for each in found for uid, track in each.tracks.items() if (track.fraction or 0.0) < 0.2}
    decision = run(*nodes, *views, history=History(tracks=low))
    gone = {entry.job.uid: entry.loss for entry in decision.outcomes if entry.loss is not None}
    after = [replace(view, placement=None) if view.uid in gone else view for view in views]
    again = run(*nodes, *after, history=History(backoffs=decision.backoffs))
    for uid, lost in gone.items():
        entry = again.outcome(uid)
        assert entry is not None
        view = next(view for view in views if view.uid == uid)
        if lost.reason == "SLAViolated":
            assert entry.placement is not None
            assert view.placement is not None
            assert entry.placement.node != view.placement.node
        else:
            assert any(_gains(each, views, low, gone) for each in _beside(view, views))
