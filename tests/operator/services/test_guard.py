"""The steps of the SLO guard: by hand and by property."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_builders import NOW, p99

from rowen.crds.service.online_service import HarvestGuard, harvest_level
from rowen.operator.services.guard import (
    DWELL_SECONDS,
    FIRST_SECONDS,
    FORGET_SECONDS,
    LONGEST_SECONDS,
    Guard,
    decide,
    read_guard,
    written,
)
from rowen.operator.services.objective import Objective, Verdict, dated
from rowen.operator.services.proportions import Proportion

LEVELS = ("Stopped", "Reduced", "Full")


HARM = p99((100, 1000), (0, 1000))
UNTESTED = p99((100, 1000))
OVERLOADED = p99((100, 1000), (100, 1000))
FINE = p99((1, 1000), (1, 1000))
SILENT = p99()
NOTED = Guard("Full", NOW - DWELL_SECONDS)
"""One window has given a reason; the next one decides at NOW."""


def test_the_cases_are_what_they_are_called() -> None:
    assert [each.verdict() for each in (HARM, UNTESTED, OVERLOADED, FINE, SILENT)] == [
        Verdict.HARVEST, Verdict.UNTESTED, Verdict.SERVICE, Verdict.NONE, Verdict.NONE,
    ]  # fmt: skip


SINGLY = "after 30 min at Stopped one job at a time is harvested again"


def test_harvesting_is_reduced_then_stopped_then_tried_again() -> None:
    reduced = decide(NOTED, [HARM], NOW)
    assert (reduced.level, reduced.since, reduced.steps, reduced.cause) == ("Reduced", NOW, 1, "Harvest")
    assert reduced.message == f"harvesting makes requests late: {dated([HARM], NOW)}"
    assert decide(reduced, [HARM], NOW + DWELL_SECONDS - 1) == reduced
    stopped = decide(reduced, [HARM], NOW + DWELL_SECONDS)
    assert (stopped.level, stopped.since, stopped.steps) == ("Stopped", NOW + DWELL_SECONDS, 2)
    # 900 s doubled once.
    assert decide(stopped, [SILENT], stopped.since + 1799) == stopped
    again = decide(stopped, [SILENT], stopped.since + 1800)
    assert (again.level, again.steps, again.message) == ("Reduced", 2, SINGLY)
    assert decide(again, [FINE], again.since + 1799) == again
    full = decide(again, [FINE], again.since + 1800)
    told = "after 30 min at Reduced everything is harvested again"
    assert (full.level, full.steps, full.message) == ("Full", 2, told)
    worse = decide(full, [HARM], full.since + DWELL_SECONDS)
    assert (worse.level, worse.steps, worse.wait_seconds) == ("Reduced", 3, 3600.0)


def test_the_next_step_up_is_told_when_it_comes() -> None:
    """By time alone: until then nothing else brings it, and at that moment it is made."""
    stopped = Guard("Stopped", NOW, 2)
    assert stopped.next_up == NOW + 1800
    assert Guard("Reduced", NOW, 0, "Service").next_up == NOW + DWELL_SECONDS
    assert (Guard().next_up, Guard("Full", NOW, 2).next_up) == (None, None)
    for held in (stopped, Guard("Reduced", NOW, 0, "Service"), Guard("Reduced", NOW, 3)):
        assert held.next_up is not None
        assert decide(held, [SILENT], held.next_up - 1) == held
        assert decide(held, [SILENT], held.next_up).level != held.level


def test_a_service_that_misses_its_objective_by_itself_is_harvested_on() -> None:
    assert decide(Guard(), [OVERLOADED], NOW) == Guard()
    assert decide(Guard(), [FINE], NOW) == decide(Guard(), [SILENT], NOW) == decide(Guard(), [], NOW) == Guard()


def test_without_a_comparison_the_steps_make_one() -> None:
    reduced = decide(NOTED, [UNTESTED], NOW)
    assert (reduced.level, reduced.cause) == ("Reduced", "Untested")
    stopped = decide(reduced, [UNTESTED], NOW + DWELL_SECONDS)
    assert (stopped.level, stopped.cause, stopped.steps) == ("Stopped", "Untested", 2)
    later = stopped.since + DWELL_SECONDS
    # The service misses it alone: harvesting comes back at once, step by step.
    back = decide(stopped, [OVERLOADED], later)
    assert (back.level, back.message) == ("Reduced", f"harvesting is not the cause: {dated([OVERLOADED], later)}")
    full = decide(back, [OVERLOADED], later + DWELL_SECONDS)
    assert (full.level, full.since) == ("Full", later + DWELL_SECONDS)
    # The next comparison is not made before the wait of two steps down; one that shows harm needs none.
    assert decide(full, [UNTESTED], full.since + 1799) == full
    assert decide(full, [UNTESTED], full.since + 1800).level == "Reduced"
    assert decide(full, [HARM], full.since + DWELL_SECONDS).level == "Reduced"
    # It keeps it alone: harvesting was the cause, and waits.
    assert decide(stopped, [FINE], stopped.since + 1799) == stopped
    assert decide(replace(stopped, cause="Harvest"), [FINE], stopped.since + 1799).level == "Stopped"


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (HARM, "harvesting makes requests late"),
        (UNTESTED, "whether harvesting makes requests late is not known, which holding it back will show"),
    ],
)
def test_one_window_alone_steps_nothing(reason: Objective, why: str) -> None:
    noted = decide(Guard(), [reason], NOW)
    assert (noted.level, noted.since, noted.steps, noted.message) == ("Full", NOW, 0, f"{why}: {dated([reason], NOW)}")
    assert decide(noted, [HARM], NOW + DWELL_SECONDS - 1) == noted
    assert decide(noted, [reason], NOW + DWELL_SECONDS).level == "Reduced"
    # A disturbance that is over is forgotten, and so the next one is noted first, too.
    for passed in (FINE, SILENT, OVERLOADED):
        assert decide(noted, [passed], NOW + DWELL_SECONDS) == Guard()


def test_where_no_device_has_two_tenants_reduced_is_left_out() -> None:
    for reason in (HARM, UNTESTED):
        assert decide(Guard(), [reason], NOW, shared=False).level == "Full"
        stopped = decide(NOTED, [reason], NOW, shared=False)
        assert (stopped.level, stopped.steps, stopped.wait_seconds) == ("Stopped", 1, 900.0)
    assert decide(Guard("Reduced", NOW - DWELL_SECONDS, 1), [HARM], NOW, shared=False).level == "Stopped"
    assert decide(Guard("Stopped", NOW - 900.0, 1), [SILENT], NOW, shared=False).level == "Reduced"


def test_what_was_blamed_on_harvesting_and_is_missed_without_it_is_taken_back() -> None:
    alone = p99((0, 0), (400, 2000))
    stopped = Guard("Stopped", NOW, 2, "Harvest")
    assert decide(stopped, [alone], NOW + DWELL_SECONDS - 1) == stopped
    back = decide(stopped, [alone], NOW + DWELL_SECONDS)
    assert (back.level, back.steps, back.cause) == ("Reduced", 1, "Service")
    assert back.message == f"harvesting is not the cause: {dated([alone], NOW + DWELL_SECONDS)}"
    full = decide(back, [OVERLOADED], back.since + DWELL_SECONDS)
    assert (full.level, full.steps, full.cause) == ("Full", 0, "Service")
    assert decide(full, [OVERLOADED], full.since + DWELL_SECONDS) == Guard()


def test_harm_that_is_seen_again_right_after_that_is_harm() -> None:
    # 35 % late beside offline work and 5 % without: not the objective, but harvesting more than doubles it.
    doubled, alone = p99((350, 1000), (50, 1000)), p99((0, 0), (50, 1000))
    stopped = Guard("Stopped", NOW, 2, "Harvest")
    back = decide(stopped, [alone], NOW + DWELL_SECONDS)
    again = decide(back, [doubled], back.since + DWELL_SECONDS)
    assert (again.level, again.cause, again.steps) == ("Stopped", "Again", 2)
    assert decide(again, [alone], again.since + 1799) == again
    assert decide(again, [alone], again.since + 1800).level == "Reduced"
    # Where it needs a second tenant to show, too.
    full = decide(back, [alone], back.since + DWELL_SECONDS)
    assert decide(full, [doubled], full.since + DWELL_SECONDS).cause == "Again"


def test_what_is_stopped_comes_back_by_time_whatever_is_still_told_of_harm() -> None:
    # A job that does not end, or a report that does not change any more.
    stopped = Guard("Stopped", NOW, 2)
    for told in (HARM, UNTESTED):
        assert decide(stopped, [told], NOW + 1799) == stopped
        again = decide(stopped, [told], NOW + 1800)
        assert (again.level, again.steps) == ("Reduced", 2)
        assert decide(again, [told], NOW + 1800 + DWELL_SECONDS).level == "Stopped"


def test_waits_double_up_to_four_hours() -> None:
    waits = [replace(Guard(), steps=steps).wait_seconds for steps in range(8)]
    assert waits == [0.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 14400.0, 14400.0]
    assert (FIRST_SECONDS, LONGEST_SECONDS, DWELL_SECONDS) == (900.0, 14400.0, 720.0)


def test_steps_are_forgotten_after_half_a_day_at_full() -> None:
    full = Guard("Full", NOW, 5)
    assert decide(full, [FINE], NOW + FORGET_SECONDS - 1) == full
    assert decide(full, [FINE], NOW + FORGET_SECONDS) == Guard()
    assert decide(full, [HARM], NOW + FORGET_SECONDS).steps == 0
    assert decide(replace(full, level="Reduced"), [HARM], NOW + FORGET_SECONDS).steps == 6


@pytest.mark.parametrize(
    "guard", [Guard("Reduced", NOW, 1, "Harvest", "why"), Guard("Stopped", NOW, 16, "Untested"), Guard("Full", NOW, 3)]
)
def test_a_restart_goes_on_where_it_was(guard: Guard) -> None:
    stored = written(guard, "Preempt")
    assert stored is not None
    assert read_guard(HarvestGuard.from_wire(stored.to_wire()), "Preempt", NOW + 1) == guard
    assert (written(Guard(), "Preempt"), read_guard(None, "Preempt", NOW)) == (None, Guard())


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ({"level": "Throttled"}, Guard("Reduced", NOW)),
        ({"level": ""}, Guard("Reduced", NOW)),
        ({"level": "Stopped", "since": "yesterday"}, Guard("Stopped", NOW)),
        ({"level": "Stopped", "since": "2027-01-15T08:00:00"}, Guard("Stopped", NOW)),
        ({"level": "Stopped", "since": "9999-12-31T00:00:00Z"}, Guard("Stopped", NOW)),
        ({"level": "Stopped", "since": "0001-01-01T00:00:00+14:00"}, Guard("Stopped", 0.0)),
        ({"level": "Full", "steps": -3, "cause": "New", "new": 1}, Guard("Full", NOW)),
        ({"level": "Reduced", "steps": 1, "cause": "Again"}, Guard("Reduced", NOW, 1, "Again")),
        ({"level": "Full", "steps": 10**9, "cause": "Untested"}, Guard("Full", NOW, 16, "Untested")),
    ],
)
def test_what_cannot_be_read_is_harmless(stored: dict[str, object], read: Guard) -> None:
    guard = read_guard(HarvestGuard.from_wire({"since": "2099-01-01T00:00:00Z", **stored}), "Preempt", NOW)
    assert guard == read
    assert written(guard, "Preempt") is not None


def test_levels_of_other_versions() -> None:
    assert [harvest_level(word) for word in (None, "Full", "Reduced", "Stopped", "Half", 7, {})] == [
        "Full", "Full", "Reduced", "Stopped", "Reduced", "Reduced", "Reduced",
    ]  # fmt: skip


counts = st.integers(0, 3000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))
seen = st.builds(p99, counts, counts, counts)
guards = st.builds(
    Guard,
    st.sampled_from(["Full", "Reduced", "Stopped"]),
    st.floats(NOW - 100_000, NOW),
    st.integers(0, 16),
    st.sampled_from(["Harvest", "Untested", "Service", "Again"]),
)


@given(guards, seen, seen)
def test_more_late_requests_beside_offline_work_never_raise_the_level(
    guard: Guard, one: Objective, other: Objective
) -> None:
    if one.beside.count < one.beside.of:
        more = replace(one, beside=Proportion(one.beside.count + 1, one.beside.of))
        before, after = (LEVELS.index(decide(guard, [each, other], NOW).level) for each in (one, more))
        assert after <= before


@given(guards, seen)
def test_one_step_at_a_time_after_the_dwell(guard: Guard, objective: Objective) -> None:
    after = decide(guard, [objective], NOW)
    assert abs(LEVELS.index(after.level) - LEVELS.index(guard.level)) <= 1
    if after.level != guard.level:
        assert NOW - (guard.since or 0.0) >= DWELL_SECONDS
        assert after.since == NOW
        assert after.message
