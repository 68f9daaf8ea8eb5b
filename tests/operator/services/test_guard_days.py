"""The SLO guard over days of made-up traffic."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from operator_builders import NOW, p99

from rowen.operator.services.guard import Guard, decide


def days(
    seed: int, number: float, beside: Callable[[str], float], without: float, *, rate: float, present: float
) -> Iterator[Guard]:
    """The guard over so many days, looked at each minute.

    `rate`: requests a second; `present`: part of them beside offline work, at Full; `beside` and `without`: how likely
    one is late.
    """
    chance, guard, late = np.random.default_rng(seed), Guard(), [(0, 0, 0, 0)] * 60
    for minute in range(int(number * 24 * 60)):
        now = NOW + 60.0 * minute
        tenants = {"Full": present, "Reduced": present, "Stopped": 0.0}[guard.level]
        first = round(60 * rate * tenants)
        second = round(60 * rate) - first
        misses = int(chance.binomial(first, beside(guard.level))), int(chance.binomial(second, without))
        late = [*late[1:], (misses[0], first, misses[1], second)]
        sums = [tuple(map(sum, zip(*window, strict=True))) for window in (late[-10:], late)]
        objective = p99(sums[0][:2], sums[0][2:], sums[1][2:])
        after = decide(guard, [objective], now)
        if after.level != guard.level:
            yield after
        guard = after


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("late", [0.0, 0.005, 0.009])
def test_a_service_that_keeps_its_objective_is_left_alone(seed: int, late: float) -> None:
    assert not list(days(seed, 2, lambda _: late, late, rate=2.0, present=0.6))


@pytest.mark.parametrize("seed", range(4))
def test_an_overloaded_service_is_harvested_on(seed: int) -> None:
    assert not list(days(seed, 2, lambda _: 0.2, 0.2, rate=2.0, present=0.6))


@pytest.mark.parametrize("seed", range(3))
def test_an_overloaded_service_that_is_never_alone_is_compared_ever_more_seldom(seed: int) -> None:
    steps = list(days(seed, 4, lambda _: 0.2, 0.2, rate=2.0, present=1.0))
    stops = [step.since for step in steps if step.level == "Stopped" and step.since]
    assert {step.cause for step in steps} == {"Untested"}
    assert 2 <= len(stops) <= 24
    pauses = [after - before for before, after in pairwise(stops)]
    assert pauses[-1] > 4 * 3600


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("present", [0.6, 1.0])
def test_harm_is_stopped_and_tried_again_ever_more_seldom(seed: int, present: float) -> None:
    steps = list(days(seed, 4, lambda _: 0.05, 0.001, rate=2.0, present=present))
    stops = [step.since for step in steps if step.level == "Stopped" and step.since]
    # Three windows after it began, and then each time 15 min · 2^k later, up to 4 h, and a window or two.
    assert stops[0] <= NOW + 3 * 720 + 900
    assert 12 <= len(stops) <= 4 * 6 + 8
    assert all(after - before > 3600 for before, after in pairwise(stops[1:]))
    assert all(before.level != after.level for before, after in pairwise(steps))


@pytest.mark.parametrize("seed", range(3))
def test_where_one_job_at_a_time_does_no_harm_it_stays_so_ever_longer(seed: int) -> None:
    steps = list(days(seed, 4, {"Full": 0.05, "Reduced": 0.003}.__getitem__, 0.001, rate=2.0, present=0.6))
    assert "Stopped" not in {step.level for step in steps}
    reduced = [step.since for step in steps if step.level == "Reduced" and step.since]
    assert [round((after - before) / 3600) for before, after in pairwise(reduced[4:])][:3] == [
        4,
        4,
        4,
    ]


@pytest.mark.parametrize("seed", range(3))
def test_few_requests_say_nothing(seed: int) -> None:
    assert not list(days(seed, 2, lambda _: 0.5, 0.0, rate=0.1, present=1.0))


@pytest.mark.parametrize("seed", range(2))
def test_a_rise_of_traffic_that_looks_like_harm_costs_an_hour(seed: int) -> None:
    """The last hour's requests without offline work were of a quieter time; now 20 % are late either way."""
    chance, guard, stopped = np.random.default_rng(seed), Guard(), 0
    quiet = (6, 6000)
    for minute in range(24 * 60):
        alone = guard.level == "Stopped"
        late = int(chance.binomial(1200, 0.2)), 1200
        told = p99((0, 0) if alone else late, late if alone else (0, 0), late if stopped else quiet)
        guard = decide(guard, [told], NOW + 60.0 * minute)
        stopped += guard.level == "Stopped"
    # The dwell, 12 min; a day of the waits alone would be 15 min and more each.
    assert (guard, stopped) == (Guard(), 12)
