"""What is learned of jobs that engines compute, and when they lose their seat."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import (
    NOW,
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
    world,
)
from scheduler.placement.test_seats import engine, rider, seated

from rowen.scheduler.decision import Action
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.monitor.engine_parts import engine_parts
from rowen.scheduler.monitor.observation import observe
from rowen.scheduler.monitor.scoring import ErrorSample
from rowen.scheduler.snapshot import JobView

VIEW = seated(rider("j", sla=0.5), "n", at=NOW)
OWN, RIDES = ("class", "cpu"), ("CoServe|class", "cpu")
KNOWN = {OWN: Profile(200.0, 600.0, NOW)}
CPU0 = "n", "cpu0"


def report(
    history: History, at: float, tokens: int, granted: float, idle: float = 0.8, view: JobView = VIEW
) -> History:
    """One report, `at` seconds after the placement."""
    there = engine("n", tenants=(tenant(view, tokens, granted),), idle=idle)
    snapshot = world(node("n", there, reported=NOW + at), view, pod(view, "n"))
    return observe(history, snapshot, NOW + at, POLICY).history


def test_what_riders_make_is_kept_apart_from_what_others_make() -> None:
    history = report(report(History(), 10, 900, 9.0), 60, 5900, 59.0)
    assert OWN not in history.profiles
    assert history.profiles[RIDES].tokens_per_second == pytest.approx(100.0)
    assert history.tracks["uid-j"].workload == "CoServe|class"
    assert not history.profiled("class")


def test_an_sla_is_a_part_of_the_throughput_by_itself() -> None:
    known = History(profiles=KNOWN)
    history = report(report(known, 10, 900, 9.0), 70, 6900, 69.0)
    assert history.solo("CoServe|class", "cpu") == 200.0
    track = history.tracks["uid-j"]
    assert (track.fraction, track.speed) == (pytest.approx(0.5), pytest.approx(0.5))


def test_where_that_is_not_known_what_riders_make_is_no_part_of_anything() -> None:
    history = report(report(History(), 10, 900, 9.0), 70, 6900, 69.0)
    assert history.solo("CoServe|class", "cpu") is None
    track = history.tracks["uid-j"]
    assert track.tokens_per_second == pytest.approx(100.0)
    assert (track.fraction, track.speed, track.shortfall) == (None, None, 0.0)


@pytest.mark.parametrize(("profiles", "after"), [({}, (None, 0.0)), (KNOWN, (0.005, 129.4))])
def test_a_halt_is_held_against_a_rider_until_it_makes_something_where_its_pace_cannot_be_judged(
    profiles: Any, after: tuple[float | None, float]
) -> None:
    history = History(profiles=profiles)
    for at in range(10, 140, 10):
        history = report(history, at, 900, float(at))
    halted = history.tracks["uid-j"]
    # A window is full after 50 s; of those before nothing is known where the throughput alone is not.
    assert (halted.fraction, halted.shortfall) == (0.0, 80.0 if not profiles else 120.0)
    moving = report(history, 140, 960, 140.0).tracks["uid-j"]
    assert (moving.fraction, moving.shortfall) == (pytest.approx(after[0]), pytest.approx(after[1]))


def test_a_silence_makes_up_for_no_halt() -> None:
    history = History()
    for at in range(10, 140, 10):
        history = report(history, at, 900, float(at))
    there = engine("n", tenants=(tenant(VIEW, 900, 200.0),))
    heard = node("n", there, reported=NOW + 200, steady=NOW + 200)
    after = observe(history, world(heard, VIEW, pod(VIEW, "n")), NOW + 200, POLICY).history.tracks["uid-j"]
    assert (after.fraction, after.shortfall) == (None, 80.0)


def test_what_a_job_says_of_itself_is_of_the_job_by_itself() -> None:
    view = replace(VIEW, solo=200.0)
    history = report(report(History(), 10, 900, 9.0, view=view), 70, 6900, 69.0, view=view)
    assert history.profiles[OWN].tokens_per_second == 200.0
    assert history.profiles[RIDES].tokens_per_second == pytest.approx(100.0)
    assert history.tracks["uid-j"].fraction == pytest.approx(0.5)


def test_a_busy_device_is_no_reason_to_doubt_its_promise() -> None:
    """Its node's idle time says little of what its engine gives."""
    history = History()
    for at in range(10, 400, 20):
        history = report(history, at, at * 100, float(at), idle=0.0)
    track = history.tracks["uid-j"]
    assert (track.drift, track.shortfall) == (0.0, 0.0)
    beside = History()
    for at in range(10, 400, 20):
        beside = report(beside, at, at * 100, float(at), idle=0.0, view=placed(job("j", sla=0.5), "n", at=NOW))
    assert beside.tracks["uid-j"].drift > 0.0


def test_one_that_makes_too_little_is_short_of_its_sla() -> None:
    history = History(profiles={OWN: Profile(200.0, 600.0, NOW)})
    for at in range(10, 600, 20):
        history = report(history, at, at * 20, float(at))
    assert history.tracks["uid-j"].shortfall >= POLICY.shortfall_seconds


def test_a_prediction_is_not_judged_by_what_riders_make() -> None:
    """It is a part of the throughput by itself, of which riders alone tell nothing."""

    def errors(history: History, view: JobView) -> list[ErrorSample]:
        found: list[ErrorSample] = []
        for at in range(10, 700, 20):
            there = engine("n", tenants=(tenant(view, at * 100, float(at)),))
            seen = observe(history, world(node("n", there, reported=NOW + at), view, pod(view, "n")), NOW + at, POLICY)
            history, found = seen.history, [*found, *seen.errors]
        gone = observe(history, world(node("n", engine("n"), reported=NOW + 700)), NOW + 700, POLICY)
        return [*found, *gone.errors]

    assert errors(History(), VIEW) == []
    (sample,) = errors(History(profiles=KNOWN), VIEW)
    assert (sample.workload, sample.measured) == ("CoServe|class", pytest.approx(0.5))
    (beside,) = errors(History(), placed(job("j", sla=0.5), "n", at=NOW))
    assert beside.workload == "class"


def track(view: JobView, fraction: float | None, tenants: int = 1, **fields: Any) -> Track:
    assert view.placement is not None
    base = Track(view.placement.id, f"{view.name}-1", "CoServe|class", ("cpu",), NOW - 600, NOW, 1000, 0.0)
    return replace(base, fraction=fraction, tenants=tenants, **fields)


def test_what_an_engine_gives_is_measured() -> None:
    views = [seated(rider(name), "n", at=NOW) for name in "abc"] + [placed(job("own"), "n", "cpu1")]
    tracks = {
        "uid-a": track(views[0], 0.2, 2),
        "uid-b": track(views[1], 0.15, 2),
        "uid-c": track(views[2], None),
        "uid-own": track(views[3], 0.9),
        "uid-gone": track(views[0], 0.9),
    }
    jobs = {view.uid: view for view in views}
    assert engine_parts(History(KNOWN, tracks=tracks), jobs) == {CPU0: pytest.approx(0.4)}
    stale = {"uid-a": replace(tracks["uid-a"], assignment="old")}
    assert engine_parts(History(KNOWN, tracks=stale), jobs) == {}
    assert engine_parts(History(KNOWN, tracks={"uid-a": track(views[0], 0.9, 3)}), jobs) == {CPU0: 1.0}


@pytest.mark.parametrize(
    ("profiles", "fields", "part"),
    [
        (KNOWN, {}, 0.5),
        ({}, {}, None),
        ({RIDES: Profile(100.0, 600.0, NOW)}, {}, None),
        ({("class", "gpu"): Profile(100.0, 600.0, NOW)}, {}, None),
        # It makes nothing at all, which needs no profile to be measured: it may evaluate.
        ({}, {"fraction": 0.0}, None),
        (KNOWN, {"device_types": ("cpu", "gpu")}, None),
        # It loads its data yet.
        (KNOWN, {"tokens": 0, "fraction": 0.0}, None),
        (KNOWN, {"fraction": 0.0}, 0.0),
    ],
)
def test_who_tells_what_an_engine_gives(profiles: Any, fields: dict[str, Any], part: float | None) -> None:
    view = seated(rider("r"), "n", at=NOW)
    tracks = {"uid-r": replace(track(view, 0.5), **fields)}
    assert engine_parts(History(profiles, tracks=tracks), {"uid-r": view}).get(CPU0) == part


def test_what_was_measured_counts_for_the_next() -> None:
    view = seated(rider("r"), "a")
    history = History(KNOWN, tracks={"uid-r": track(view, 0.3)})
    decision = run(*running(node("a", engine("a", idle=0.9)), view), rider("j"), history=history)
    assert outcome(decision, "r").fraction == pytest.approx(0.15)
    assert outcome(decision, "j").fraction == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("there", "reason", "told"),
    [
        (engine("a", ended="out of memory"), "RideEnded", "nothing rides in its engine any more: out of memory"),
        (engine("a", model="models/other"), "RideEnded", "its engine serves another model now"),
        (engine("a", namespace="theirs"), "RideEnded", "its engine is one of another namespace now"),
        (device("a"), "RideEnded", "its service has another mode, model or arguments now"),
        (engine("a", refusal="OnlineService ns/chat is gone"), "HarvestDisabled", "OnlineService ns/chat is gone"),
    ],
)
def test_what_takes_a_seat_away(there: Any, reason: str, told: str) -> None:
    found = outcome(run(*running(node("a", there), seated(rider("j")))), "j")
    assert found.loss is not None
    assert (found.loss.reason, found.message) == (reason, f"a/cpu0: {told}")


@pytest.mark.parametrize("there", [engine("a", seats=0), device("a", attached=False)])
def test_an_engine_that_is_started_anew_is_waited_for(there: Any) -> None:
    assert outcome(run(*running(node("a", there), seated(rider("j")))), "j").action is Action.KEEP


@pytest.mark.parametrize(("since", "action"), [(150.0, Action.KEEP), (150.5, Action.REVOKE)])
def test_its_worker_has_its_two_minutes_to_ask_for_the_engine(since: float, action: Action) -> None:
    """Also where that is back on another device: who had the seat keeps to its own."""
    history = History(absences={("a", "cpu0"): NOW - since})
    there = node("a", device("a", attached=False), engine("a", "cpu1"))
    assert outcome(run(*running(there, seated(rider("j"))), history=history), "j").action is action


def test_who_runs_beside_an_engine_does_not_lose_its_place_with_the_seats() -> None:
    parts = running(node("a", engine("a", ended="out of memory")), placed(rider("j"), "a"))
    assert outcome(run(*parts), "j").action is Action.KEEP


def refused(view: JobView) -> JobView:
    return replace(view, status=view.status.model_copy(update={"ride_refused": "other weights"}))


def test_one_that_was_refused_runs_by_itself_at_once() -> None:
    view = not_started(refused(seated(rider("j"))))
    gone = run(node("a", engine("a")), view)
    found = outcome(gone, "j")
    assert found.loss is not None
    assert found.loss.reason == "RideRefused"
    assert found.message == "a/cpu0: it rides no more: other weights"
    history = History(backoffs=gone.backoffs)
    again = outcome(run(node("a", engine("a")), replace(view, placement=None), history=history), "j")
    assert again.placement is not None
    assert not again.placement.rides


def test_one_that_waited_for_its_engine_in_vain_keeps_away_for_a_while() -> None:
    view = not_started(seated(rider("j")), cause="Node")
    gone = run(node("a", engine("a")), view)
    assert outcome(gone, "j").loss.reason == "NotStarted"  # type: ignore[union-attr]
    history = History(backoffs=gone.backoffs)
    assert outcome(run(node("a", engine("a")), replace(view, placement=None), history=history), "j").placement is None


def test_one_that_falls_short_in_an_engine_goes_elsewhere() -> None:
    view = seated(rider("j", sla=0.6), "a")
    short = track(view, 0.2, shortfall=POLICY.shortfall_seconds)
    parts = running(node("a", engine("a")), view)
    found = outcome(run(*parts, node("b", device("b", idle=0.9)), history=History(tracks={"uid-j": short})), "j")
    assert found.loss is not None
    assert found.loss.reason == "SLAViolated"
    stays = outcome(run(*parts, node("b", device("b", idle=0.3)), history=History(tracks={"uid-j": short})), "j")
    assert stays.action is Action.KEEP
    assert "it falls short of its SLA and stays" in stays.message


def test_a_rider_without_an_sla_makes_way_for_one_with() -> None:
    promised, other = seated(rider("j", sla=0.5), "a"), seated(rider("other"), "a")
    short = track(promised, 0.3, 2, shortfall=POLICY.shortfall_seconds)
    decision = run(*running(node("a", engine("a")), promised, other), history=History(tracks={"uid-j": short}))
    assert outcome(decision, "other").loss.reason == "MadeWay"  # type: ignore[union-attr]
    assert outcome(decision, "j").action is Action.KEEP
