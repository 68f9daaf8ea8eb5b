"""What is learned from reports: throughput, profiles, prediction errors."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import GIB, LEASE, NOW, POLICY, device, job, node, placed, pod, tenant, world

from rowen.scheduler.decision import Action, decide
from rowen.scheduler.history import History
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import MOST_PROFILES, PredictionError, Profile
from rowen.scheduler.monitor import reading
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.monitor.learning import promised_fraction
from rowen.scheduler.monitor.observation import Observation, observe
from rowen.scheduler.snapshot import JobView, Placement

VIEW = placed(job("j", sla=0.5), "n", at=NOW)


def report(
    history: History, at: float, tokens: int, granted: float, view: JobView = VIEW, others: int = 0, idle: float = 0.8
) -> Observation:
    """One report, `at` seconds after the placement."""
    tenants = (tenant(view, tokens, granted), *(tenant(job(f"other{i}")) for i in range(others)))
    snapshot = world(node("n", device("n", tenants=tenants, idle=idle), reported=NOW + at), view, pod(view, "n"))
    return observe(history, snapshot, NOW + at, POLICY)


def profile_of(history: History) -> Profile | None:
    return history.profiles.get(("class", "cpu"))


def test_a_profile_is_tokens_per_granted_second() -> None:
    history = report(History(), 10, 900, 9.0).history
    assert profile_of(history) is None
    history = report(history, 30, 2500, 25.0).history
    found = profile_of(history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100)
    assert found.weight == pytest.approx(25)


def test_granted_time_is_shared_among_tenants() -> None:
    history = report(History(), 5, 100, 1.0, others=1).history
    history = report(history, 50, 100 + 2000, 41.0, others=1).history
    found = profile_of(history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100)


def test_a_neighbour_whose_image_is_pulled_takes_nothing() -> None:
    history = report(History(), 0, 10, 0.1).history
    waiting = replace(tenant(job("other")), attached=False)
    own = tenant(VIEW, 2510, 25.1)
    seen = node("n", device("n", tenants=(own, waiting)), reported=NOW + 30)
    history = observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + 30, POLICY).history
    found = profile_of(history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100)
    assert found.witnesses[0].alone
    assert history.tracks["uid-j"].tenants == 1


def test_a_job_on_two_devices_is_counted_once() -> None:
    """Its pod is listed with each device; one page may be a step behind the other."""
    view = placed(job("j", devices=2), "n", "a", "b", at=NOW)
    told = {"a": tenant(view, 2490, 24.9), "b": tenant(view, 2500, 25.0)}
    devices = [device("n", name, tenants=(entry,)) for name, entry in told.items()]
    snapshot = world(node("n", *devices, reported=NOW + 30), view, pod(view, "n", "a", "b"))
    found = profile_of(observe(History(), snapshot, NOW + 30, POLICY).history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100)
    assert found.weight == pytest.approx(25)


def test_a_short_job_is_learned_from_at_its_end() -> None:
    history = report(History(), 10, 500, 5.0).history
    done = replace(VIEW, finished=True)
    history = observe(history, world(node("n", reported=NOW + 12), done), NOW + 12, POLICY).history
    found = profile_of(history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100)
    assert history.tracks == {}


def test_the_same_report_is_read_once() -> None:
    once = report(History(), 30, 2500, 25.0).history
    twice = report(once, 30, 2500, 25.0).history
    assert profile_of(once) == profile_of(twice)
    assert twice.tracks["uid-j"].samples == once.tracks["uid-j"].samples


def test_nothing_is_worked_out_of_a_report_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    once = report(History(), 30, 2500, 25.0).history
    looked: list[int] = []
    monkeypatch.setattr(reading, "expected_fraction", lambda *_: looked.append(1))
    assert report(once, 30, 2500, 25.0).history.tracks == once.tracks
    assert looked == []


def test_a_job_that_has_finished_keeps_its_track_while_its_report_stays() -> None:
    once = report(History(), 10, 500, 5.0).history
    twice = report(once, 10, 500, 5.0, view=replace(VIEW, finished=True)).history
    assert twice.tracks == once.tracks
    assert profile_of(twice) is None


def test_a_stale_report_is_not_read() -> None:
    snapshot = world(node("n", device("n", tenants=(tenant(VIEW, 900, 9.0),))), VIEW, pod(VIEW, "n"))
    assert observe(History(), snapshot, NOW + LEASE + 1, POLICY).history.tracks == {}


def known(rate: float = 100.0) -> History:
    return History(profiles={("class", "cpu"): Profile(rate, 600.0, NOW)})


def drive(history: History, rates: list[float], others: int = 0) -> History:
    """A report every 5 s; in each span so many tokens per second."""
    tokens = 0
    for step, rate in enumerate([1.0, *rates]):
        tokens += round(5 * rate)
        history = report(history, 5.0 * step, tokens, 5.0 * step * rate / 100.0, others=others).history
    return history


def test_the_fraction_is_measured_over_the_window() -> None:
    history = drive(known(), [60.0] * 12)
    assert history.tracks["uid-j"].fraction == pytest.approx(0.6, abs=0.01)
    assert history.tracks["uid-j"].tokens_per_second == pytest.approx(60.0)
    assert history.tracks["uid-j"].shortfall == 0.0


def test_nothing_is_measured_before_the_window_is_nearly_full() -> None:
    assert drive(known(), [60.0] * 9).tracks["uid-j"].fraction is None


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
def test_what_is_missing_is_that_of_the_time_between_two_reports(seconds: float) -> None:
    """Nothing is made in it, however short it is: all of it is missing, though the window is full of tokens."""
    history, tokens = drive(known(), [100.0] * 14), 1 + 14 * 500
    last = 5.0 * 14
    assert history.tracks["uid-j"].shortfall == 0.0
    after = report(history, last + seconds, tokens + 4, last + seconds / 2).history
    assert after.tracks["uid-j"].shortfall == pytest.approx(seconds)


def test_what_is_missing_of_the_sla_adds_up_and_is_made_up_for() -> None:
    """At 30 of the 50 that the SLA says two fifths of the time are missing; at 60 a fifth of it is paid back."""
    assert drive(known(), [30.0] * 14).tracks["uid-j"].shortfall == pytest.approx(70 * 0.4)
    assert drive(known(), [30.0] * 14 + [60.0] * 10).tracks["uid-j"].shortfall == pytest.approx(28 - 50 * 0.2)
    assert drive(known(), [30.0] * 14 + [90.0] * 12).tracks["uid-j"].shortfall == 0.0


def test_a_bad_minute_is_no_missed_sla() -> None:
    """A job that keeps its SLA over ten minutes, in bursts: nothing in every other minute."""
    history, most = known(), 0.0
    tokens, granted = 10, 0.1
    for step in range(240):
        rate = 0.0 if step // 12 % 2 else 120.0
        tokens, granted = tokens + round(5 * rate), granted + 5 * rate / 100
        history = report(history, 5.0 * step, tokens, granted).history
        most = max(most, history.tracks["uid-j"].shortfall)
    assert most == pytest.approx(60.0)
    assert most < POLICY.shortfall_seconds


def test_a_bad_night_is_made_up_for_in_minutes() -> None:
    """Of an hour without anything 240 s are remembered: at a fifth above its SLA they are paid back in 20 minutes."""
    history, tokens = drive(known(), [0.0] * 720), 5
    assert history.tracks["uid-j"].shortfall == 240.0
    for step in range(721, 721 + 241):
        tokens += 300
        history = report(history, 5.0 * step, tokens, tokens / 100.0).history
    assert history.tracks["uid-j"].shortfall == pytest.approx(0.0, abs=0.1)


def test_neighbours_that_come_and_go_hide_no_missed_sla() -> None:
    """At a tenth of its SLA of 50, beside one that attaches and detaches with every report."""
    history = known()
    for step in range(31):
        history = report(history, 5.0 * step, 5 + 25 * step, 0.3 * step, others=step % 2).history
    assert history.tracks["uid-j"].shortfall == pytest.approx(150 * 0.9)
    assert history.tracks["uid-j"].score.seconds == 0.0


def measured(history: History, at: float, tokens: int, *, clock: float = 0.0) -> History:
    """A report that is heard `at` seconds after the placement, from a node whose clock differs by so much."""
    tenants = (tenant(VIEW, tokens, tokens / 100.0),)
    seen = node("n", device("n", tenants=tenants), reported=NOW + at + clock, heard=NOW + at)
    return observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + at, POLICY).history


@pytest.mark.parametrize("clock", [-7200.0, 7200.0])
def test_a_node_whose_clock_is_wrong_is_measured_all_the_same(clock: float) -> None:
    history = known()
    for step in range(14):
        history = measured(history, 5.0 * step, 5 + 150 * step, clock=clock)
    track = history.tracks["uid-j"]
    assert track.fraction == pytest.approx(0.3)
    assert track.shortfall == pytest.approx(65 * 0.4)
    assert track.time == NOW + 65


@pytest.mark.parametrize(
    ("at", "steady", "stamp", "begins"),
    [(70.0, 65.0, 70.0, False), (70.0, 65.1, 70.0, True), (70.0, 0.0, 65.0, True), (20.0, 0.0, 70.0, True)],
)
def test_a_silence_or_a_clock_that_is_set_begins_a_new_window(
    at: float, steady: float, stamp: float, begins: bool
) -> None:
    history = known()
    for step in range(14):
        history = measured(history, 5.0 * step, 5 + 150 * step)
    before = history.tracks["uid-j"].shortfall
    assert before == pytest.approx(65 * 0.4)
    tenants = (tenant(VIEW, 2000, 20.0),)
    seen = node("n", device("n", tenants=tenants), reported=NOW + stamp, heard=NOW + at, steady=NOW + steady)
    track = observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + at, POLICY).history.tracks["uid-j"]
    assert (len(track.samples) == 1) == begins
    # What was missing before stays so; of the time in between nothing is known.
    assert track.shortfall == pytest.approx(before + (0.0 if begins else 5 * (1 - 0.09 / 0.5)))
    assert (track.fraction is None) == begins
    assert (track.tokens_per_second is None) == begins
    assert track.time == NOW + at


@pytest.mark.parametrize(("ahead", "counts"), [(30.0, True), (30.1, False), (3600.0, False)])
def test_a_clock_that_is_set_ahead_misses_nothing(ahead: float, counts: bool) -> None:
    """By the node's clock nothing was made for so long; up to the lease's length it is taken for a report's way."""
    history = known()
    for step in range(14):
        history = measured(history, 5.0 * step, 5 + 300 * step)
    for step in range(14, 18):
        history = measured(history, 5.0 * step, 5 + 300 * step, clock=ahead)
    track = history.tracks["uid-j"]
    # The report of the step has made 300 in 35 s, of 50 a second that are due; each one after it pays a second back.
    assert track.shortfall == (pytest.approx(35 * (1 - 300 / 35 / 50) - 3) if counts else 0.0)
    assert track.score.seconds == pytest.approx(85 + ahead if counts else 80)
    assert len(track.samples) == (7 if counts else 4)


@pytest.mark.parametrize("every", [5, 16, 20, 22, 25])
def test_a_shortfall_is_seen_however_far_apart_passes_are(every: int) -> None:
    history = known()
    for at in range(0, 241, every):
        history = measured(history, float(at), 5 + 30 * at)
    track = history.tracks["uid-j"]
    assert track.fraction == pytest.approx(0.3)
    assert track.shortfall == pytest.approx(0.4 * (240 // every * every))


def test_an_absence_does_not_lie_ahead() -> None:
    away = world(node("n", device("n", attached=False), heard=NOW - 3600))
    history = History(absences={("n", "cpu0"): NOW})
    assert observe(history, away, NOW - 3600, POLICY).history.absences == {("n", "cpu0"): NOW - 3600}


def test_loading_does_not_count_as_shortfall_until_the_start_is_overdue() -> None:
    history = known()
    for at in range(0, 301, 10):
        history = report(history, at, 0, 0.0).history
    assert history.tracks["uid-j"].fraction is None
    for at in range(310, 371, 10):
        history = report(history, at, 0, 0.0).history
    assert history.tracks["uid-j"].fraction == 0.0
    assert history.tracks["uid-j"].shortfall == pytest.approx(60.0)


def test_a_template_without_tokens_is_not_blamed() -> None:
    view = replace(VIEW, counts_tokens=False)
    history = known()
    for at in range(0, 400, 10):
        history = report(history, at, 0, 0.0, view=view).history
    assert history.tracks["uid-j"].fraction is None


def test_a_new_pod_begins_anew() -> None:
    history = drive(known(), [60.0] * 12)
    restarted = report(history, 70, 10, 0.1).history
    assert restarted.tracks["uid-j"].fraction is None
    assert len(restarted.tracks["uid-j"].samples) == 1


def scores(seconds: int, history: History | None = None, rate: int = 60, **fields: Any) -> Observation:
    """A report every 5 s for so long; with the errors of all of them."""
    history, errors = history or known(), []
    for at in range(0, seconds + 1, 5):
        seen = report(history, float(at), 5 + rate * at, rate * at / 100, **fields)
        history = seen.history
        errors += seen.errors
    return Observation(history, tuple(errors))


def test_a_promise_is_scored_once_over_ten_minutes() -> None:
    assert scores(595).errors == ()
    found = scores(1500)
    assert [(round(error.predicted, 3), round(error.measured, 2)) for error in found.errors] == [(0.8, 0.6)]
    assert found.history.errors["class"].mean == pytest.approx(0.1 * 0.25, abs=1e-3)
    assert found.history.errors["class"].time == NOW + 600


@pytest.mark.parametrize(("seconds", "counts"), [(55, False), (60, True), (595, True)])
def test_a_promise_that_ends_before_is_scored_after_a_minute(seconds: int, counts: bool) -> None:
    """By the job's end, by an eviction, and by a new pod."""
    began = scores(seconds).history
    at = NOW + seconds + 5
    finished = world(node("n", reported=at), replace(VIEW, finished=True))
    evicted = world(node("n", reported=at), replace(VIEW, placement=None))
    for over in (
        observe(began, finished, at, POLICY),
        observe(began, evicted, at, POLICY),
        report(began, seconds + 5, 1, 0.1),
    ):
        assert [round(error.measured, 2) for error in over.errors] == [0.6] * counts


def test_a_pod_that_starts_again_on_the_same_assignment_is_not_scored_again() -> None:
    again = scores(1500, history=scores(595).history)
    assert len(again.errors) == 1
    assert again.history.tracks["uid-j"].score.closed


def test_an_outage_is_no_part_of_what_is_scored() -> None:
    history = scores(300).history
    tenants = (tenant(VIEW, 18_005, 180.0),)
    seen = node("n", device("n", tenants=tenants), reported=NOW + 900, steady=NOW + 890)
    after = observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + 900, POLICY).history
    assert after.tracks["uid-j"].score.seconds == 300.0


def test_a_promise_is_not_scored_while_the_throughput_alone_is_not_known() -> None:
    view, history = replace(VIEW, counts_tokens=True), History()
    for at in range(0, 900, 5):
        found = report(history, float(at), 5 + at, 0.0, view=view)
        history = found.history
        assert found.errors == ()
    assert not history.tracks["uid-j"].score.closed


def test_a_change_of_tenants_begins_the_score_anew() -> None:
    history, errors = known(), []
    for step in range(130):
        seen = report(history, 5.0 * step, 5 + 300 * step, 3.0 * step, others=step % 2)
        history = seen.history
        errors += seen.errors
    assert errors == []
    assert history.tracks["uid-j"].score.seconds == 0.0


def test_the_margin_follows_the_errors() -> None:
    fresh = PredictionError()
    assert fresh.bound == pytest.approx(0.10)
    exact = fresh
    for _ in range(100):
        exact = exact.updated(0.5, 0.5, NOW)
    assert exact.bound == pytest.approx(0.02)
    late = exact
    for _ in range(100):
        late = late.updated(0.5, 0.35, NOW)
    assert 0.29 < late.bound < 0.40
    need = 0.4 + late.margin(0.4)
    assert need * (1 - late.bound) == pytest.approx(0.4)
    better = exact
    for _ in range(100):
        better = better.updated(0.5, 0.9, NOW)
    assert better.bound == pytest.approx(0.02)


def test_a_class_that_was_far_off_is_admitted_again_in_time() -> None:
    """A device that is idle for 0.6 of the time, an SLA of 0.4: at b = 0.5 it takes 0.8, and hours later 0.44."""
    history = History(errors={"class": PredictionError(0.4, 0.0425, NOW)})
    for later, action in ((0.0, Action.WAIT), (4 * 3600.0, Action.PLACE)):
        now = NOW + later
        snapshot = world(node("n", device("n", idle=0.6), reported=now), job("j", sla=0.4))
        history = observe(history, snapshot, now, POLICY).history
        found = decide(snapshot, history, now, POLICY).outcome("uid-j")
        assert found is not None
        assert found.action is action


def test_absences_are_dated_once() -> None:
    away = world(node("n", device("n", attached=False)))
    first = observe(History(), away, NOW, POLICY).history
    second = observe(first, away, NOW + 9, POLICY).history
    assert second.absences == {("n", "cpu0"): NOW}
    assert observe(second, world(node("n")), NOW + 10, POLICY).history.absences == {}


def test_profiles_are_bounded_and_the_oldest_go() -> None:
    profiles = {(f"c{number:04}", "cpu"): Profile(1.0, 1.0, NOW + number) for number in range(MOST_PROFILES + 2)}
    kept = observe(History(profiles=profiles), world(node("n")), NOW, POLICY).history.profiles
    assert len(kept) == MOST_PROFILES
    assert ("c0001", "cpu") not in kept
    assert ("c0002", "cpu") in kept


def test_errors_are_kept_for_classes_that_are_known_or_in_use() -> None:
    error = PredictionError(0.1, 0.01, NOW)
    history = History(
        profiles={("known", "cpu"): Profile(1.0, 1.0, NOW)}, errors=dict.fromkeys(("known", "class", "gone"), error)
    )
    assert observe(history, world(job("j")), NOW, POLICY).history.errors.keys() == {"known", "class"}


def test_backoffs_of_deleted_jobs_and_removed_nodes_end() -> None:
    running, over = Backoff(1, NOW + 30, "SLAViolated"), Backoff(1, NOW - 30, "SLAViolated")
    backoffs = {
        ("uid-j", "n"): over, ("uid-j", "away"): running, ("uid-j", "removed"): over, ("uid-k", "n"): running
    }  # fmt: skip
    kept = observe(History(backoffs=backoffs), world(node("n"), job("j")), NOW, POLICY).history.backoffs
    assert kept.keys() == {("uid-j", "n"), ("uid-j", "away")}


def test_a_deleted_job_is_no_longer_tracked() -> None:
    history = report(History(), 5, 100, 1.0).history
    assert history.tracks.keys() == {"uid-j"}
    assert observe(history, world(node("n", reported=NOW + 6)), NOW + 6, POLICY).history.tracks == {}


POOLED = replace(VIEW, pool=400, need=linear_need(400, doubt=0.5))


def told(
    history: History, at: float, tokens: int, granted: float, available: tuple[int, ...] = (), view: JobView = POOLED,
    steady: float = float("-inf"), **fields: Any,
) -> History:  # fmt: skip
    """A report of a device with so much memory in its window."""
    fields = {"idle": 0.8, "tenants": (tenant(view, tokens, granted),), "available": available, **fields}
    seen = node("n", device("n", **fields), reported=NOW + at, steady=steady)
    return observe(history, world(seen, view, pod(view, "n")), NOW + at, POLICY).history


def test_throughput_by_memory_is_learned_with_each_window() -> None:
    history = told(History(), 0, 10, 0.1, (400,))
    history = told(history, 30, 2510, 25.1, (100, 300))
    found = profile_of(history)
    assert found is not None
    assert found.memory is not None
    assert found.memory.seconds == pytest.approx(25.1)
    # The first 0.1 s lie before what the report tells of; in the rest one quarter, and half of the time two more.
    assert found.memory.gram[:5] == pytest.approx((25.1, 25.1, 12.55, 12.55, 0.0))
    assert found.memory.moment[0] == pytest.approx(2510.0)
    assert profile_of(told(history, 60, 2600, 26.0, (100, 300))) == found


def test_a_window_without_any_memory_teaches_what_none_is_worth() -> None:
    """For all of its seconds it is known how much there was."""
    history = told(History(), 0, 10, 0.1, (400,))
    found = profile_of(told(history, 30, 2510, 25.1, (0,)))
    assert found is not None
    assert found.memory is not None
    assert found.memory.gram[:2] == pytest.approx((25.1, 0.0))


def test_a_window_says_nothing_of_what_was_before_it() -> None:
    """An hour ran beside much memory: a scheduler that has just begun sees the last minute alone."""
    found = profile_of(told(History(), 3600, 360_000, 3600.0, (0,)))
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100.0)
    assert found.memory is None
    silent = told(told(History(), 0, 10, 0.1, (400,)), 900, 90_000, 900.0, (0,), steady=NOW + 890)
    after = profile_of(silent)
    assert after is not None
    assert after.memory is None


def test_what_is_shared_or_of_unknown_memory_is_no_evidence() -> None:
    for fields in ({"tenants": (tenant(POOLED, 5000, 50.0), tenant(job("other")))}, {"available": ()}):
        history = told(History(), 0, 10, 0.1, (400,))
        found = profile_of(told(history, 60, 5000, 50.0, **{"available": (400,), **fields}))
        assert found is not None
        assert found.memory is None


def test_slow_while_granted_is_told_and_no_lower_throughput_alone() -> None:
    """Another tenant's traffic halves its speed: 30 of 100 tokens in 0.6 of each second."""
    history = drive(known(), [60.0] * 24)
    for step in range(25, 50):
        history = report(history, 5.0 * step, 7200 + 150 * (step - 24), 72.0 + 3.0 * (step - 24)).history
    track, found = history.tracks["uid-j"], profile_of(history)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(100.0, abs=0.2)
    assert track.fraction == pytest.approx(0.3, abs=0.001)
    assert track.granted_part == pytest.approx(0.6, abs=0.001)
    assert track.speed == pytest.approx(0.5, abs=0.001)


def test_beside_another_tenant_a_job_is_measured_by_its_part_of_the_granted_time() -> None:
    """Both could run in 0.6 of each second, so each in 0.3, in which it made 30 of 100 tokens."""
    history = known()
    for step in range(13):
        history = report(history, 5.0 * step, 10 + 150 * step, 3.0 * step, others=1).history
    track = history.tracks["uid-j"]
    assert (track.fraction, track.granted_part, track.speed) == (
        pytest.approx(0.3), pytest.approx(0.3), pytest.approx(1.0),
    )  # fmt: skip


def test_a_job_that_hangs_while_it_may_run_teaches_no_throughput_of_nothing() -> None:
    history = report(report(History(), 5, 100, 1.0).history, 30, 2500, 25.0).history
    before = profile_of(history)
    assert before is not None
    assert profile_of(report(history, 60, 2500, 50.0).history) == before


def test_a_spec_says_the_throughput_alone_until_it_is_measured() -> None:
    view = replace(VIEW, solo=80.0)
    history = report(History(), 0, 10, 0.1, view=view).history
    assert history.solo("class", "cpu") == 80.0
    assert report(known(), 0, 10, 0.1, view=view).history.solo("class", "cpu") == 100.0


def test_the_promise_that_was_made_is_scored_and_not_the_last_report() -> None:
    view = replace(VIEW, placement=replace(VIEW.placement, predicted=0.7)) if VIEW.placement else VIEW
    found = scores(600, view=view, idle=0.6)
    assert [(round(error.predicted, 3), round(error.measured, 2)) for error in found.errors] == [(0.7, 0.6)]
    assert found.history.tracks["uid-j"].expected == pytest.approx(0.6)


def test_a_promise_is_divided_by_the_tenants_that_came_after_it() -> None:
    history = report(known(), 0, 10, 0.1).history
    assert history.tracks["uid-j"].score.promised == pytest.approx(0.8)
    assert report(history, 5, 400, 4.0, others=1).history.tracks["uid-j"].score.promised == pytest.approx(0.4)
    shared = placed(job("j", sla=0.5), "n", at=NOW, predicted=0.4, tenants=2)
    began = report(known(), 0, 10, 0.1, view=shared, others=1).history
    assert began.tracks["uid-j"].score.promised == pytest.approx(0.4)
    assert report(began, 5, 400, 4.0, view=shared).history.tracks["uid-j"].score.promised == pytest.approx(0.8)
    # A scheduler that has just been started sees two tenants where one was promised to be alone.
    assert report(known(), 0, 10, 0.1, others=1).history.tracks["uid-j"].score.promised == pytest.approx(0.4)


def scored(first: JobView, second: JobView, *, rate: float) -> Observation:
    """Two jobs that share a device for ten minutes, each at so many of its 100 tokens a second alone."""
    history = known()
    for step in range(121):
        tokens = round(5 + 5 * rate * step)
        tenants = (tenant(first, tokens, 4.0 * step), tenant(second, tokens, 4.0 * step))
        seen = node("n", device("n", tenants=tenants), reported=NOW + 5 * step)
        parts = (seen, first, second, pod(first, "n"), pod(second, "n"))
        found = observe(history, world(*parts), NOW + 5 * step, POLICY)
        history = found.history
        if found.errors:
            return found
    return found


def test_two_jobs_of_one_pass_are_scored_by_what_each_was_promised_beside_the_other() -> None:
    """The first was promised the device alone, the second half of it, and neither has been off."""
    first = placed(job("a"), "n", at=NOW, predicted=0.8, tenants=1)
    second = placed(job("b"), "n", at=NOW, predicted=0.4, tenants=2)
    found = scored(first, second, rate=40.0)
    assert [(error.predicted, round(error.measured, 2)) for error in found.errors] == [(0.4, 0.4)] * 2
    assert found.history.errors["class"].mean == pytest.approx(0.0, abs=1e-6)


def test_a_promise_of_an_older_release_is_not_scored() -> None:
    first, second = (placed(job(name), "n", at=NOW, tenants=None) for name in "ab")
    found = scored(first, second, rate=20.0)
    assert found.errors == ()
    assert [found.history.tracks[job.uid].fraction for job in (first, second)] == pytest.approx([0.2, 0.2])
    assert [found.history.tracks[job.uid].drift for job in (first, second)] == [0.0, 0.0]


def test_what_the_report_lets_expect_knows_neighbours_and_memory() -> None:
    """Alone M is (200/400 + 400/400) / 2, and beside another with half of the pool (100/400 + 200/400) / 2."""
    history = told(known(), 0, 10, 0.1, (200, 400))
    assert history.tracks["uid-j"].expected == pytest.approx(0.8 * 0.75)
    shared = told(known(), 0, 10, 0.1, (200, 400), tenants=(tenant(POOLED, 10, 0.1), tenant(job("other"))))
    assert shared.tracks["uid-j"].expected == pytest.approx(0.8 / 2 * 0.375)


def test_a_promise_falls_with_the_memory_that_a_neighbour_takes() -> None:
    """It was made alone for 0.8; beside another half the time is left, and half of what the memory is worth."""
    shared = told(known(), 0, 10, 0.1, (200, 400), tenants=(tenant(POOLED, 10, 0.1), tenant(job("other"))))
    assert shared.tracks["uid-j"].score.promised == pytest.approx(0.8 / 2 * 0.375 / 0.75)


@pytest.mark.parametrize(
    ("predicted", "made_beside", "tenants", "promised"), [(0.45, 2, 1, 1.0), (0.2, 2, 1, 0.8), (0.9, 1, 2, 0.225)]
)
def test_no_more_is_promised_than_the_part_of_the_time(
    predicted: float, made_beside: int, tenants: int, promised: float
) -> None:
    """The pool is what it wants: by the report, alone M is 1, beside another 0.5. 0.45 x 2 x 1 / 0.5 would be 1.8."""
    placement = Placement("id", "n", ("cpu0",), predicted, 0.0, 0.0, LEASE, made_beside)
    appetite = Appetite("class", GIB, linear_need(4 * GIB), {})
    lending = device("n", memory=20 * GIB, available=(4 * GIB,))
    assert promised_fraction(placement, [lending], tenants, appetite) == pytest.approx(promised)


def test_a_neighbour_that_comes_or_goes_begins_the_dwell_anew() -> None:
    alone = told(known(), 0, 10, 0.1)
    assert alone.tracks["uid-j"].beside == NOW
    both = (tenant(POOLED, 20, 0.2), tenant(job("other")))
    shared = told(alone, 10, 20, 0.2, tenants=both)
    assert shared.tracks["uid-j"].beside == NOW + 10
    assert told(shared, 20, 30, 0.3, tenants=both).tracks["uid-j"].beside == NOW + 10
