"""How much memory is kept ahead of the online side's need."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

TWELVE = HarvestMemory(pressure_threshold=0.9, target_reclaims_per_hour=12)
NOW = 50_000.0
HOUR = 3600.0
POOL = 1000
STEP = 4
"""A 256th of the pool, rounded up."""
TAU = 18.75


def state(**changes: object) -> HeadroomState:
    base = HeadroomState(headroom=100, tau=TAU, interval_start=NOW, time=NOW, taken=0)
    return replace(base, **changes)  # type: ignore[arg-type]


def seen(used: int, headroom: int = 100, pool: int = POOL, taken: int = 0) -> Observation:
    return Observation(pool=pool, headroom=headroom, used=used, taken=taken)


def after(seconds: float, what: Observation, before: HeadroomState | None = None) -> HeadroomDecision:
    return decide(before or state(), what, NOW + seconds, TWELVE)


@pytest.mark.parametrize(
    ("used", "headroom", "pool", "expected"),
    [
        (89, 100, POOL, 100),
        (90, 100, POOL, 120),
        (100, 100, POOL, 120),
        (63, 70, POOL, 84),
        (108, 100, POOL, 130),
        (117, 100, POOL, 141),
        (200, 100, POOL, 240),
        (5, 5, POOL, 9),
        (21, 21, POOL, 26),
        (95, 100, 110, 110),
        (95, 100, 100, 100),
        (100, 100, 100, 100),
        (300, 100, 200, 200),
        (0, 0, POOL, STEP),
        (0, 0, 256, 1),
        (0, 0, 257, 2),
        (1, 1, 3, 2),
    ],
)
def test_pressure_raises_headroom(used: int, headroom: int, pool: int, expected: int) -> None:
    before = state(headroom=headroom)
    assert after(0.5, seen(used, headroom, pool), before).state.headroom == expected


@pytest.mark.parametrize(
    ("threshold", "used", "expected"),
    [(0.5, 49, 100), (0.5, 50, 120), (0.5, 100, 208), (1.0, 99, 100), (1.0, 100, 120)],
)
def test_the_threshold_is_the_services(threshold: float, used: int, expected: int) -> None:
    decision = decide(state(), seen(used), NOW, HarvestMemory(pressure_threshold=threshold))
    assert decision.state.headroom == expected


def test_a_reason_says_what_was_done() -> None:
    assert after(1, seen(95)).reason == "pressure: 95 of 100 handles in use, raised to 120"
    assert after(1, seen(95, pool=100)).reason == "pressure: 95 of 100 handles in use, there are no more"
    assert after(1, seen(5, 120)).reason == "raised from 100 to 120 handles since the last look"
    assert after(1, seen(5)).reason == "no pressure: 100 handles, until the interval has passed"
    assert after(TAU, seen(5)).reason == "no pressure: 4 handles released, 96 left"
    assert after(TAU, seen(89)).reason == "no pressure: 89 handles in use, 99 is the least for them"


@pytest.mark.parametrize(
    ("seconds", "used", "headroom", "start"),
    [
        (0.0, 10, 100, 0.0),
        (TAU - 0.01, 10, 100, 0.0),
        (TAU, 10, 96, TAU),
        (TAU + 1, 10, 96, TAU),
        (2 * TAU, 10, 92, 2 * TAU),
        (TAU + 1, 85, 96, TAU),
        (TAU + 1, 86, 96, TAU + 1),
        (TAU + 1, 87, 97, TAU + 1),
        (TAU - 1, 89, 100, 0.0),
        (50 * TAU, 10, 12, 50 * TAU),
        (50 * TAU, 0, 1, 50 * TAU),
        (-5.0, 10, 100, 0.0),
    ],
)
def test_without_pressure_a_step_is_released_every_tau(seconds: float, used: int, headroom: int, start: float) -> None:
    found = after(seconds, seen(used)).state
    assert (found.headroom, found.interval_start) == (headroom, NOW + start)


def test_time_at_the_least_headroom_does_not_count_towards_a_release() -> None:
    found = after(100.0, seen(90, 101), state(headroom=101)).state
    assert (found.headroom, found.interval_start) == (101, NOW + 100)
    assert after(100.0 + TAU - 1, seen(10, 101), found).state.headroom == 101
    assert after(100.0 + TAU, seen(10, 101), found).state.headroom == 97


def test_pressure_begins_the_interval_anew() -> None:
    assert after(5, seen(95)).state.interval_start == NOW + 5
    assert after(5, seen(95, pool=100)).state.interval_start == NOW + 5


def test_what_a_native_thread_raised_is_kept_for_an_interval() -> None:
    found = after(2 * TAU, seen(10, 120)).state
    assert (found.headroom, found.interval_start) == (120, NOW + 2 * TAU)
    assert after(3 * TAU - 1, seen(10, 120), found).state.headroom == 120
    assert after(3 * TAU, seen(10, 120), found).state.headroom == 116


def test_a_headroom_in_force_that_is_less_than_decided_is_where_it_goes_on() -> None:
    assert after(1, seen(10, 90)).state.headroom == 90


def test_a_pool_that_shrinks_takes_the_headroom_along() -> None:
    assert after(1, seen(10, 100, pool=80)).state.headroom == 80


def test_the_first_decision() -> None:
    decision = decide(None, seen(50, 0, taken=7), NOW, TWELVE)
    assert decision.state == HeadroomState(headroom=60, tau=TAU, interval_start=NOW, time=NOW, taken=7)
    assert decide(None, seen(10, 100), NOW, TWELVE).state.headroom == 100


@pytest.mark.parametrize(
    ("headroom", "threshold", "growth"),
    [
        (100, 0.9, 120),
        (70, 0.9, 84),
        (10, 0.9, 14),
        (101, 0.9, 122),
        (900, 0.9, 1000),
        (1000, 0.9, 1000),
        (100, 0.5, 208),
        (100, 1.0, 120),
    ],
)
def test_what_a_native_thread_may_do(headroom: int, threshold: float, growth: int) -> None:
    service = HarvestMemory(pressure_threshold=threshold)
    decision = decide(state(headroom=headroom), seen(1, headroom), NOW, service)
    assert (decision.state.headroom, decision.growth) == (headroom, growth)


def test_growth_is_told_from_the_new_headroom() -> None:
    decision = after(1, seen(90))
    assert (decision.state.headroom, decision.growth) == (120, 144)


T = 300.0
ROOT = 2 ** (1 / 7)
MOST = T * 2 ** (1 / 8)


@pytest.mark.parametrize(
    ("tau", "seconds", "taken", "expected"),
    [
        (75.0, 0.0, 0, 75.0),
        (75.0, 8 * T, 0, 37.5),
        (75.0, 16 * T, 0, 18.75),
        (75.0, T, 0, 75 / 2 ** (1 / 8)),
        (75.0, 0.0, 1, 75 * ROOT),
        (75.0, 8 * T, 30, 37.5 * ROOT),
        (75.0, -5.0, 0, 75.0),
        (1.2, T, 0, T / 256),
        (1.2, T, 1, T / 256 * ROOT),
        (320.0, 0.0, 1, MOST),
        (1000.0, 0.0, 0, MOST),
        (0.1, 1.0, 0, T / 256),
    ],
)
def test_tau_follows_the_reclaims(tau: float, seconds: float, taken: int, expected: float) -> None:
    found = after(seconds, seen(10, 1200, pool=1200, taken=taken), state(headroom=1000, tau=tau)).state
    assert found.headroom == 1200
    assert found.tau == pytest.approx(expected, abs=1e-9)
    assert found.time == NOW + seconds


@pytest.mark.parametrize(("used", "headroom"), [(10, 12), (0, 1), (90, 101), (900, 1000)])
def test_at_its_lower_end_headroom_says_nothing_of_tau(used: int, headroom: int) -> None:
    before = state(headroom=headroom)
    assert after(8 * T, seen(used, headroom), before).state.tau == TAU
    assert after(8 * T, seen(used, headroom, taken=1), before).state.tau == pytest.approx(TAU * ROOT)


def test_seven_reclaims_in_eight_times_the_targets_interval_keep_tau() -> None:
    found = state(headroom=1000)
    for number in range(1, 15):
        found = after(number * 8 * T / 7, seen(10, 1000, taken=number), found).state
    assert found.tau == pytest.approx(TAU, abs=1e-9)


def test_what_is_released_follows_the_tau_that_was_decided_last() -> None:
    found = after(8 * T, seen(10, 1000), state(headroom=1000, tau=200.0)).state
    assert (found.headroom, found.interval_start) == (1000 - 12 * STEP, NOW + 12 * 200.0)
    found = after(T, seen(10, 1000), state(headroom=1000, tau=1000.0)).state
    assert (found.headroom, found.interval_start) == (1000, NOW)
    found = after(MOST, seen(10, 1000), state(headroom=1000, tau=1000.0)).state
    assert (found.headroom, found.interval_start) == (1000 - STEP, NOW + MOST)


@pytest.mark.parametrize(("target", "interval"), [(1, 3600.0), (12, 300.0), (600, 6.0)])
def test_the_bounds_of_tau(target: int, interval: float) -> None:
    service = HarvestMemory(target_reclaims_per_hour=target)
    assert reclaim_interval(service) == interval
    assert (tau_max(service), tau_min(service)) == (pytest.approx(interval * 2 ** (1 / 8)), interval / 256)


@pytest.mark.parametrize(
    ("known", "taken", "seconds", "expected"),
    [
        (-math.inf, 0, 5.0, -math.inf),
        (-math.inf, 1, 5.0, 5.0),
        (1.0, 9, 1.9, 1.0),
        (1.0, 9, 2.0, 2.0),
        (1.0, 0, 2.0, 1.0),
    ],
)
def test_what_counts_as_a_reclaim(known: float, taken: int, seconds: float, expected: float) -> None:
    before = state(reclaim=NOW + known)
    found = after(seconds, seen(10, taken=taken), before).state
    assert found.reclaim == NOW + expected
    assert found.taken == taken
    assert (found.tau > TAU) == (expected != known)


def test_a_counter_that_begins_anew_is_no_reclaim() -> None:
    found = after(5, seen(10, taken=3), state(taken=90)).state
    assert (found.taken, found.reclaim) == (3, -math.inf)


def test_pressure_that_took_nothing_from_offline_work_is_no_reclaim() -> None:
    found = after(5, seen(95)).state
    assert found.headroom == 120
    assert found.reclaim == -math.inf
    assert found.tau < TAU


def test_calls_within_one_pressure_change_nothing_more() -> None:
    first = after(5, seen(95, 100, taken=0))
    again = first
    for number in range(1, 10):
        # The memory is taken piece by piece meanwhile.
        again = after(5 + number / 10, seen(95, 120, taken=2 * number), again.state)
        assert again.state.headroom == 120
    assert again.state.reclaim == NOW + 5.1
    assert again.state.tau == pytest.approx(TAU * ROOT, rel=1e-2)


counts = st.integers(0, 400)
services = st.builds(
    HarvestMemory, pressure_threshold=st.floats(0.5, 1.0), target_reclaims_per_hour=st.integers(1, 600)
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, Observation]]:
    """Times and observations; native threads raise, agents fail to apply, processes lie about what they use."""
    now, taken, found = 0.0, 0, []
    for _ in range(draw(st.integers(1, 30))):
        now += draw(st.floats(0.0, 2000.0))
        taken += draw(st.sampled_from([0, 0, 1, 30]))
        found.append((now, Observation(draw(st.integers(1, 400)), draw(counts), draw(counts), taken)))
    return found


@given(histories(), services)
def test_whatever_happens_the_bounds_hold(history: list[tuple[float, Observation]], service: HarvestMemory) -> None:
    before: HeadroomState | None = None
    for now, what in history:
        decision = decide(before, what, now, service)
        found = decision.state
        used = min(what.used, what.pool)
        assert max(1, used) <= found.headroom <= what.pool
        assert tau_min(service) <= found.tau <= tau_max(service)
        assert found.headroom <= decision.growth <= what.pool
        assert found.headroom == what.pool or used / found.headroom < service.pressure_threshold
        assert found.headroom == what.pool or decision.growth > found.headroom
        assert found.reclaim <= found.time == now
        assert found.interval_start <= now
        before = found


# Of an engine that has taken more than its headroom, headroom grows from its use: there whole steps decide.
within = st.integers(0, state().headroom)


@given(within, within, st.floats(0, 2000), services)
def test_more_use_never_makes_less_headroom(one: int, other: int, seconds: float, service: HarvestMemory) -> None:
    less, more = sorted((one, other))
    found = [decide(state(), seen(used), NOW + seconds, service).state.headroom for used in (less, more)]
    assert found[0] <= found[1]


@given(counts, st.floats(0, 5000), st.floats(0, 5000), services)
def test_more_time_never_makes_more_headroom(used: int, one: float, other: float, service: HarvestMemory) -> None:
    soon, late = sorted((one, other))
    found = [decide(state(), seen(used), NOW + seconds, service).state.headroom for seconds in (soon, late)]
    assert found[0] >= found[1]


@given(st.floats(0, 5000), st.floats(0, 5000), services)
def test_tau_falls_with_time_and_a_reclaim_raises_it(one: float, other: float, service: HarvestMemory) -> None:
    soon, late = sorted((one, other))
    found = [decide(state(), seen(10, 200), NOW + seconds, service).state.tau for seconds in (soon, late)]
    assert found[0] >= found[1]
    raised = decide(state(), seen(10, 200, taken=1), NOW + late, service).state.tau
    assert raised > found[1] or found[1] == tau_max(service)


@dataclass
class Device:
    """A pool whose offline tenants take whatever is left, so that every increase is a reclaim."""

    pool: int
    headroom: int = 0
    taken: int = 0
    decision: HeadroomDecision | None = None

    def tick(self, used: int, now: float, service: HarvestMemory) -> HeadroomDecision:
        if self.decision and used >= service.pressure_threshold * self.headroom:
            self._raise(self.decision.growth)
        before = self.decision.state if self.decision else None
        self.decision = decide(before, Observation(self.pool, self.headroom, used, self.taken), now, service)
        self._raise(self.decision.state.headroom)
        return self.decision

    def _raise(self, headroom: int) -> None:
        self.taken += max(0, headroom - self.headroom)
        self.headroom = headroom


@settings(max_examples=25)
@given(st.integers(0, 300), services)
def test_a_constant_load_ends_in_the_least_headroom_and_stays_there(used: int, service: HarvestMemory) -> None:
    device = Device(pool=1000, headroom=1000)
    period = tau_max(service) / 2
    for number in range(2 * 256 + 4):
        device.tick(used, number * period, service)
    assert device.taken == 0
    least = device.headroom
    assert used / least < service.pressure_threshold
    assert least == 1 or used / (least - 1) >= service.pressure_threshold
    for number in range(2 * 256 + 4, 700):
        assert device.tick(used, number * period, service).state.headroom == least


def bursts(source: random.Random, mean_gap: float, mean_size: float, most: int) -> Iterator[int]:
    """Handles in use, second by second: bursts that rise within some seconds, last, and end."""
    while True:
        for _ in range(math.ceil(source.expovariate(1 / mean_gap))):
            yield source.randint(0, 3)
        size = min(most, round(source.lognormvariate(math.log(mean_size), 0.6)))
        rise = source.randint(1, 8)
        for second in range(rise + source.randint(1, 30)):
            yield size * min(rise, second + 1) // rise


def adversary(device: Device, service: HarvestMemory) -> Callable[[], int]:
    """Just enough for pressure, and nothing once everything has been taken, so that some of it is released."""
    return lambda: 0 if device.headroom == device.pool else math.ceil(service.pressure_threshold * device.headroom)


def reclaim_times(device: Device, load: Callable[[], int], hours: int, service: HarvestMemory) -> list[float]:
    """When memory was taken, seconds; what was taken within a second counts once."""
    times: list[float] = []
    for second in range(hours * 3600):
        before = device.taken
        device.tick(load(), float(second), service)
        if device.taken > before and (not times or second - times[-1] >= 1):
            times.append(float(second))
    return times


def late_rate(times: list[float]) -> float:
    """Reclaims per hour over the last three of five hours."""
    return len([at for at in times if at >= 2 * HOUR]) / 3


@pytest.mark.parametrize("target", [30, 120])
@pytest.mark.parametrize(("gap", "size"), [(20.0, 60.0), (60.0, 200.0)])
def test_a_bursty_load_makes_no_more_reclaims_than_the_target(target: int, gap: float, size: float) -> None:
    service = HarvestMemory(target_reclaims_per_hour=target)
    device = Device(pool=500)
    load = bursts(random.Random(f"{target} {gap}"), gap, size, 400)
    assert late_rate(reclaim_times(device, lambda: next(load), 5, service)) <= target


def test_a_quiet_night_does_not_make_the_morning_worse() -> None:
    device, source = Device(pool=500), bursts(random.Random(7), 10.0, 60.0, 400)
    load = chain(islice(source, 3 * 3600), repeat(0, 8 * 3600), source)
    times = reclaim_times(device, lambda: next(load), 12, TWELVE)
    assert 0 < len([at for at in times if at >= 11 * HOUR]) <= 1.5 * TWELVE.target_reclaims_per_hour


def test_a_bursty_load_leaves_memory_for_offline_work() -> None:
    """Otherwise a headroom of the whole pool would do: it makes no reclaim at all."""
    service = HarvestMemory(target_reclaims_per_hour=60)
    device = Device(pool=500)
    load = bursts(random.Random(1), 20.0, 60.0, 400)
    assert late_rate(reclaim_times(device, lambda: next(load), 5, service)) >= 6
    assert device.headroom < device.pool / 2


@pytest.mark.parametrize(("pool", "target"), [(3, 60), (100, 60), (1000, 60), (5000, 120)])
def test_no_load_makes_many_more_reclaims_than_the_target(pool: int, target: int) -> None:
    service = HarvestMemory(target_reclaims_per_hour=target)
    device = Device(pool=pool)
    rate = late_rate(reclaim_times(device, adversary(device, service), 5, service))
    assert target / 2 <= rate <= 1.05 * target
