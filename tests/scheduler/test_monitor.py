"""What is learned from reports: throughput, profiles, prediction errors."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, placed, pod, tenant, world

from rowen.scheduler.backoff import Backoff
from rowen.scheduler.history import History
from rowen.scheduler.monitor import Observation, observe
from rowen.scheduler.profile import MOST_PROFILES, PredictionError, Profile
from rowen.scheduler.snapshot import JobView

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


def test_a_job_on_two_devices_is_counted_once() -> None:
    """Its pod is listed with each device; one page may be a step behind the other."""
    view = placed(job("j", devices=2), "n", "a", "b", at=NOW)
    devices = [device("n", name, tenants=(tenant(view, tokens, 25.0),)) for name, tokens in (("a", 2490), ("b", 2500))]
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


def test_a_stale_report_is_not_read() -> None:
    snapshot = world(node("n", device("n", tenants=(tenant(VIEW, 900, 9.0),))), VIEW, pod(VIEW, "n"))
    assert observe(History(), snapshot, NOW + 16, POLICY).history.tracks == {}


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
    assert history.tracks["uid-j"].violating_since is None


def test_nothing_is_measured_before_the_window_is_nearly_full() -> None:
    assert drive(known(), [60.0] * 9).tracks["uid-j"].fraction is None


def test_a_shortfall_is_dated_and_ends_when_the_sla_holds_again() -> None:
    history = drive(known(), [30.0] * 14)
    assert history.tracks["uid-j"].violating_since == NOW + 50
    assert drive(known(), [30.0] * 14 + [90.0] * 12).tracks["uid-j"].violating_since is None


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
    assert track.violating_since == NOW + 50
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
    assert history.tracks["uid-j"].violating_since is not None
    tenants = (tenant(VIEW, 2000, 20.0),)
    seen = node("n", device("n", tenants=tenants), reported=NOW + stamp, heard=NOW + at, steady=NOW + steady)
    track = observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + at, POLICY).history.tracks["uid-j"]
    assert (len(track.samples) == 1) == begins
    assert (track.violating_since is None) == begins
    assert (track.fraction is None) == begins
    assert (track.tokens_per_second is None) == begins
    assert track.time == NOW + at


@pytest.mark.parametrize("every", [5, 16, 20, 22])
def test_a_shortfall_is_seen_however_far_apart_passes_are(every: int) -> None:
    history = known()
    for at in range(0, 241, every):
        history = measured(history, float(at), 5 + 30 * at)
    track = history.tracks["uid-j"]
    assert track.fraction == pytest.approx(0.3)
    assert track.violating_since is not None
    assert NOW + 240 - track.violating_since >= POLICY.sustain_seconds


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
    assert history.tracks["uid-j"].violating_since is not None


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


def test_an_error_is_measured_per_window() -> None:
    history, errors = known(), []
    for step in range(30):
        seen = report(history, 5.0 * step, 5 + 300 * step, 3.0 * step)
        history = seen.history
        errors += seen.errors
    assert [round(error.predicted, 3) for error in errors] == [0.8, 0.8]
    assert [round(error.measured, 2) for error in errors] == [0.6, 0.6]
    assert history.errors["class"].samples == 2
    assert history.errors["class"].mean > 0.05


def test_a_window_with_a_change_of_tenants_says_nothing() -> None:
    history, errors = known(), []
    for step in range(15):
        seen = report(history, 5.0 * step, 5 + 300 * step, 3.0 * step, others=step % 2)
        history = seen.history
        errors += seen.errors
    assert errors == []


def test_the_margin_follows_the_errors() -> None:
    fresh = PredictionError()
    assert fresh.bound == pytest.approx(0.10)
    exact = fresh
    for _ in range(100):
        exact = exact.updated(0.5, 0.5)
    assert exact.bound == pytest.approx(0.02)
    late = exact
    for _ in range(100):
        late = late.updated(0.5, 0.35)
    assert 0.29 < late.bound < 0.40
    need = 0.4 + late.margin(0.4)
    assert need * (1 - late.bound) == pytest.approx(0.4)
    better = exact
    for _ in range(100):
        better = better.updated(0.5, 0.9)
    assert better.bound == pytest.approx(0.02)


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
    error = PredictionError(0.1, 0.01, 7)
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
