"""What reports say of the pattern that a promise was made for: values by hand, and stationary traffic."""

import random
from collections.abc import Iterator

import pytest
from scheduler.builders import LEASE, NOW, POLICY, device, job, node, placed, pod, tenant, world

from rowen.crds.names import PROGRESS_SECONDS
from rowen.scheduler.history import History
from rowen.scheduler.model.idle import sampling_deviation
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.monitor.drift import missing
from rowen.scheduler.monitor.observation import observe

VIEW = placed(job("j", sla=0.5), "n", at=NOW)
"""Promised 0.8."""
BURSTS = [(NOW - 60 + 2 * number, NOW - 59 + 2 * number) for number in range(30)]


def heard(history: History, at: float, idle: float, *, steady: float = 0.0) -> History:
    """A report `at` seconds after the placement, with 30 bursts; `steady`: since when heartbeats follow one another."""
    tokens = round(80 * (at + 1000))
    view = device("n", idle=idle, busy=BURSTS, tenants=(tenant(VIEW, tokens, tokens / 100),))
    seen = node("n", view, reported=NOW + at, steady=NOW + steady)
    return observe(history, world(seen, VIEW, pod(VIEW, "n")), NOW + at, POLICY).history


def began() -> History:
    known = History(profiles={("class", "cpu"): Profile(100.0, 600.0, NOW)})
    return heard(known, 100, 0.4, steady=0.0)


def drift(history: History) -> float:
    return history.tracks["uid-j"].drift


SHORT = 1 - 0.1557011 - 0.5
"""Of the promise at 0.4: (0.4 · 30 + 1) / 32 = 0.40625, 0.40625 · 0.59375 · √(2 / 30) = 0.0622804, twice that / 0.8."""


def test_drift_adds_up_what_reports_fall_short_of_the_promise() -> None:
    history = began()
    assert drift(history) == 0.0
    history = heard(history, 105, 0.4)
    assert drift(history) == pytest.approx(5 * SHORT, abs=1e-5)
    assert drift(heard(history, 105, 0.4)) == pytest.approx(5 * SHORT, abs=1e-5)
    assert drift(heard(history, 110, 0.4)) == pytest.approx(10 * SHORT, abs=1e-5)
    # At 0.8 the noise covers 2 · 0.78125 · 0.21875 · √(2 / 30) / 0.8.
    assert drift(heard(history, 110, 0.8)) == pytest.approx(5 * SHORT - 5 * 0.1103134, abs=1e-5)


def test_the_margin_of_the_class_covers_more_where_it_is_larger() -> None:
    history = began()
    wide = History(history.profiles, {"class": PredictionError(0.2, 0.0025)}, tracks=history.tracks)
    assert drift(heard(wide, 105, 0.4)) == pytest.approx(5 * (1 - 0.3 - 0.5))


def test_passes_that_are_far_apart_see_one_report() -> None:
    assert drift(heard(began(), 100 + LEASE, 0.4)) == pytest.approx(LEASE * SHORT, abs=1e-5)
    assert drift(heard(began(), 107 + LEASE, 0.4)) == pytest.approx(LEASE * SHORT, abs=1e-5)


@pytest.mark.parametrize(
    ("at", "steady"),
    [(700, 690), (700, 105.1), (-3000, -9000)],
    ids=["an outage", "a node's clock that was set", "the scheduler's clock that was put back"],
)
def test_what_was_not_heard_is_no_drift(at: float, steady: float) -> None:
    history = heard(began(), 105, 0.4)
    assert drift(heard(history, at, 0.4, steady=steady)) == 0.0


def reports(busy: float, idle: float, hours: float) -> Iterator[tuple[float, float, int]]:
    """At each report the time, the idle part of the minute and its bursts, of exponential stretches of these means."""
    source, window, last = random.Random(f"{busy} {idle}"), 60.0, hours * 3600.0
    stretches: list[tuple[float, float]] = []
    begin, at = source.expovariate(1 / idle), window
    while at < last:
        while begin <= at:
            end = begin + source.expovariate(1 / busy)
            stretches.append((begin, end))
            begin = end + source.expovariate(1 / idle)
        stretches = [stretch for stretch in stretches if stretch[1] > at - window]
        seen = [max(0.0, min(at, end) - max(at - window, start)) for start, end in stretches]
        yield at, 1 - sum(seen) / window, sum(part > 0.0 for part in seen)
        at += PROGRESS_SECONDS


@pytest.mark.parametrize(("busy", "idle"), [(3, 12), (5, 20), (10, 40), (20, 80)])
def test_stationary_traffic_is_no_changed_pattern(busy: float, idle: float) -> None:
    """40 hours at an SLA of 0.7 of the idle time."""
    promised, fallen, found, since = idle / (busy + idle), 0.0, 0, 0.0
    for at, seen, bursts in reports(busy, idle, hours=40.0):
        noise = 2.0 * sampling_deviation(seen, bursts) / promised
        fallen = missing(fallen, promised, seen, PROGRESS_SECONDS, max(PredictionError().bound, noise))
        if fallen >= POLICY.drift_seconds and seen < 0.7 * promised and at - since >= POLICY.dwell_seconds:
            found, fallen, since = found + 1, 0.0, at
    assert found == 0


def test_a_device_that_has_become_busy_is_noticed() -> None:
    history = began()
    for at in range(105, 1000, 5):
        history = heard(history, float(at), 0.2)
        if drift(history) >= POLICY.drift_seconds:
            break
    # (0.2 · 30 + 1) / 32 = 0.21875: it covers 0.1103134, and 0.25 of the promise is left.
    assert at == 105 + 5 * 37
