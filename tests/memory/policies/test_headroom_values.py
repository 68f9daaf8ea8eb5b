"""The headroom policy by hand: T = 300 s, the least tau is 300/256 s, and 16 times that at the start."""

import math
from typing import Any

import pytest

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.headroom import (
    HeadroomDecision,
    HeadroomState,
    Observation,
    decide,
    reclaim_interval,
    tau_max,
    tau_min,
)

SETTINGS = HarvestMemory(pressure_threshold=0.9, target_reclaims_per_hour=12)
LEAST, TAU = 1.171875, 18.75


def state(headroom: int, **values: Any) -> HeadroomState:
    return HeadroomState(**{"headroom": headroom, "tau": TAU, "interval_start": 0.0, "time": 0.0, "taken": 0, **values})


def decided(
    before: HeadroomState | None, now: float, *, headroom: int, used: int, pool: int = 64, taken: int = 0
) -> HeadroomDecision:
    return decide(before, Observation(pool, headroom, used, taken), now, SETTINGS)


def test_times() -> None:
    assert (reclaim_interval(SETTINGS), tau_min(SETTINGS)) == (300.0, LEAST)
    assert tau_max(SETTINGS) == pytest.approx(327.152, abs=0.001)
    assert reclaim_interval(HarvestMemory(target_reclaims_per_hour=60)) == 60.0


def test_the_first_decision_takes_what_is_there() -> None:
    made = decided(None, 7.0, headroom=20, used=10, taken=5)
    assert made.state == HeadroomState(20, TAU, 7.0, 7.0, 5, -math.inf)
    assert made.reason == "no pressure: 20 handles, until the interval has passed"


@pytest.mark.parametrize(
    ("headroom", "used", "pool", "raised", "growth"),
    [
        (0, 0, 64, 1, 2),
        (20, 19, 64, 24, 29),
        (20, 18, 64, 24, 29),  # 18 of 20 is nine tenths
        (20, 20, 64, 24, 29),
        (5, 10, 64, 12, 15),  # what is in use is part of it: 10, then ceil(12.0)
        (60, 60, 64, 64, 64),
        (64, 64, 64, 64, 64),
        (20, 100, 64, 64, 64),
        (3, 3, 512, 5, 7),  # a step of 512 is 2: 3 becomes 5, not ceil(3.6)
        (3, 3, 257, 5, 7),
        (3, 3, 256, 4, 5),
    ],
)
def test_pressure_raises_it_until_there_is_none(headroom: int, used: int, pool: int, raised: int, growth: int) -> None:
    before = state(min(headroom, pool))
    made = decided(before, 5.0, headroom=headroom, used=used, pool=pool)
    assert (made.state.headroom, made.growth, made.state.interval_start) == (raised, growth, 5.0)


@pytest.mark.parametrize(
    ("headroom", "used", "reason"),
    [
        (20, 19, "pressure: 19 of 20 handles in use, raised to 24"),
        (64, 64, "pressure: 64 of 64 handles in use, there are no more"),
        (90, 90, "pressure: 64 of 64 handles in use, there are no more"),
    ],
)
def test_pressure_in_words(headroom: int, used: int, reason: str) -> None:
    assert decided(state(20), 5.0, headroom=headroom, used=used).reason == reason


@pytest.mark.parametrize(
    ("now", "left", "start", "reason"),
    [
        (18.74, 24, 0.0, "no pressure: 24 handles, until the interval has passed"),
        (18.75, 23, 18.75, "no pressure: 1 handles released, 23 left"),
        (60.0, 21, 56.25, "no pressure: 3 handles released, 21 left"),
        (375.0, 4, 375.0, "no pressure: 20 handles released, 4 left"),
        (400.0, 3, 400.0, "no pressure: 2 handles in use, 3 is the least for them"),
        (9999.0, 3, 9999.0, "no pressure: 2 handles in use, 3 is the least for them"),
    ],
)
def test_a_step_is_released_each_tau(now: float, left: int, start: float, reason: str) -> None:
    made = decided(state(24), now, headroom=24, used=2)
    assert (made.state.headroom, made.state.interval_start, made.reason) == (left, start, reason)


def test_a_step_of_a_large_pool_is_more_than_a_handle() -> None:
    assert decided(state(100), 18.75, headroom=100, used=2, pool=512).state.headroom == 98
    assert decided(state(100), 37.5, headroom=100, used=2, pool=513).state.headroom == 94


@pytest.mark.parametrize(("used", "least"), [(0, 1), (1, 2), (2, 3), (9, 11), (10, 12), (18, 21), (27, 31)])
def test_the_least_is_what_makes_no_pressure(used: int, least: int) -> None:
    """Below nine tenths: 9 of 10 would be pressure, 9 of 11 is none."""
    made = decided(state(64), 1e6, headroom=64, used=used)
    assert made.state.headroom == least
    # At the lower end the interval begins anew with each look.
    again = decided(made.state, 1e6 + 5, headroom=least, used=used)
    assert (again.state.headroom, again.state.interval_start) == (least, 1e6 + 5)


def test_what_was_raised_since_stays_and_begins_an_interval() -> None:
    made = decided(state(24), 60.0, headroom=30, used=2)
    assert (made.state.headroom, made.state.interval_start) == (30, 60.0)
    assert made.reason == "raised from 24 to 30 handles since the last look"


@pytest.mark.parametrize(
    ("taken", "reclaim", "now", "tau", "begun"),
    [
        (0, -math.inf, 0.0, TAU, -math.inf),
        # The seventh root of two is 1.10409.
        (5, -math.inf, 0.0, 20.7017, 0.0),
        (5, -1.0, 0.0, 20.7017, 0.0),
        (5, -0.999, 0.0, TAU, -0.999),
        (0, -5.0, 0.0, TAU, -5.0),
        # Eight times 300 s halve it; 600 s take its fourth root of a half.
        (0, -math.inf, 2400.0, 9.375, -math.inf),
        (0, -math.inf, 600.0, 15.7668, -math.inf),
        (5, -math.inf, 2400.0, 10.3509, 2400.0),
    ],
)
def test_tau_grows_with_each_reclaim_and_falls_with_time(
    taken: int, reclaim: float, now: float, tau: float, begun: float
) -> None:
    # The pool is large: releases do not come to the lower end.
    before = state(60_000, reclaim=reclaim)
    made = decided(before, now, headroom=60_000, used=2, pool=64_000, taken=taken)
    assert (made.state.tau, made.state.reclaim) == (pytest.approx(tau, abs=0.0001), begun)
    assert (made.state.time, made.state.taken) == (now, taken)


def test_a_counter_that_begins_anew_is_no_reclaim() -> None:
    made = decided(state(24, taken=9), 0.0, headroom=24, used=2, taken=5)
    assert (made.state.tau, made.state.reclaim, made.state.taken) == (TAU, -math.inf, 5)


def test_time_at_the_lower_end_does_not_shorten_tau() -> None:
    assert decided(state(3), 2400.0, headroom=3, used=2).state.tau == TAU
    assert decided(state(24), 2400.0, headroom=24, used=2).state.tau == TAU, "it comes there by this decision"
    assert decided(state(24), -50.0, headroom=24, used=2).state.tau == TAU, "nor does a clock that goes back"


def test_tau_has_bounds() -> None:
    long = decided(state(24, tau=320.0), 0.0, headroom=24, used=2, taken=1)
    assert long.state.tau == tau_max(SETTINGS)
    short = decided(state(60_000, tau=LEAST), 2400.0, headroom=60_000, used=2, pool=64_000)
    assert short.state.tau == LEAST
    # With other settings than before, too: a release is due after the least tau.
    assert decided(state(24, tau=0.01), LEAST, headroom=24, used=2).state.headroom == 23
