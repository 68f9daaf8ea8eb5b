import math
import random

import pytest

from rowen.crds.ride.terms import LatencyBound
from rowen.runtime.coserve.planning.margin import Margin


def margin(percentile: float = 90.0) -> Margin:
    return Margin(LatencyBound(percentile=percentile, seconds=2.0))


def test_starts_with_the_whole_bound() -> None:
    assert (margin().value, margin().seconds, margin().kept) == (1.0, 2.0, True)


def test_late_for_riders_sake_lowers_it() -> None:
    found = margin()
    assert found.observe(2.5, 1.0)
    # A fifth, of which the percentile has nine tenths.
    assert found.value == pytest.approx(math.exp(-0.18))
    assert found.seconds == pytest.approx(2 * math.exp(-0.18))


@pytest.mark.parametrize(("seconds", "of_riders"), [(2.0, 1.0), (2.5, 0.0), (2.5, 0.4)])
def test_in_time_or_late_without_riders_raises_it(seconds: float, of_riders: float) -> None:
    found = margin()
    found.observe(2.5, 1.0)
    assert not found.observe(seconds, of_riders)
    assert found.value == pytest.approx(math.exp(-0.16))


def test_it_is_riders_doing_when_it_would_have_been_in_time_without() -> None:
    assert margin().observe(2.5, 0.5)


def test_it_stays_between_a_half_and_the_whole() -> None:
    found = margin()
    for _ in range(20):
        found.observe(9.0, 8.0)
    assert found.value == 0.5
    for _ in range(100):
        found.observe(1.0, 0.0)
    assert found.value == 1.0


def test_kept_while_no_more_are_late_than_allowed() -> None:
    found = margin()
    for _ in range(9):
        found.observe(1.0, 0.0)
    found.observe(2.5, 0.0)
    assert found.kept
    found.observe(2.5, 0.0)
    assert not found.kept
    for _ in range(10):
        found.observe(1.0, 0.0)
    assert found.kept


def test_a_long_good_time_makes_up_for_three_and_a_long_bad_one_costs_three() -> None:
    found = margin(50.0)
    for _ in range(100):
        found.observe(1.0, 0.0)
    for _ in range(6):
        found.observe(2.5, 0.0)
    assert found.kept
    found.observe(2.5, 0.0)
    assert not found.kept
    for _ in range(100):
        found.observe(2.5, 0.0)
    for _ in range(5):
        found.observe(1.0, 0.0)
    assert not found.kept
    found.observe(1.0, 0.0)
    assert found.kept


@pytest.mark.parametrize("percentile", [50.0, 90.0, 95.0])
def test_the_percentile_is_met_where_latency_follows_the_margin(percentile: float) -> None:
    found, draw, late = margin(percentile), random.Random(7), []
    for _ in range(6000):
        seconds = found.seconds * draw.lognormvariate(0.2, 0.15)
        late.append(seconds > 2.0)
        found.observe(seconds, 1.5)
    assert sum(late[500:]) / 5500 == pytest.approx(1 - percentile / 100, abs=0.01)
