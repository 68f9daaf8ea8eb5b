"""Running mean and deviation, and Eq. 2 by hand."""

import math
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.scheduler.lemix.lengths import LEAST_DEVIATION, NO_LENGTHS, Lengths


def of(*values):
    found = NO_LENGTHS
    for value in values:
        found = found.after(value)
    return found


def test_nothing_is_consistent_with_nothing_or_with_one():
    assert NO_LENGTHS.consistency(10) == 0.0
    assert of(10).consistency(10) == 0.0
    assert of(10, 12).consistency(11) > 0.0
    assert Lengths(0, 0.0, 0.0) == NO_LENGTHS
    assert (NO_LENGTHS.mean, NO_LENGTHS.deviation) == (0.0, 0.0)


def test_the_normal_density_by_hand():
    # 10, 20, 30: mean 20, deviation √(200/3) = 8.16497. At 20: 1/(8.16497·2.50663) = 0.048860.
    assert of(10, 20, 30).consistency(20) == pytest.approx(0.048860, rel=1e-4)
    # At 30: exp(−(10²)/(2·200/3)) = exp(−0.75) = 0.472367 of that: 0.023080.
    assert of(10, 20, 30).consistency(30) == pytest.approx(0.023080, rel=1e-4)
    assert of(10, 20, 30).consistency(10) == pytest.approx(0.023080, rel=1e-4)


def test_equal_lengths_have_the_least_deviation():
    assert LEAST_DEVIATION == 1.0
    assert of(50, 50).deviation == 0.0
    # 1/√(2π) = 0.398942; one token away exp(−1/2) of it: 0.241971.
    assert of(50, 50).consistency(50) == pytest.approx(0.398942, rel=1e-5)
    assert of(50, 50).consistency(51) == pytest.approx(0.241971, rel=1e-5)


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=30))
def test_running_mean_and_deviation_are_those_of_all(values):
    found = of(*values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(fmean(values))
    assert found.deviation == pytest.approx(pstdev(values), rel=1e-6, abs=1e-6)


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=20), st.integers(1, 10_000), st.integers(1, 10_000))
def test_what_is_closer_to_the_mean_is_never_less_consistent(values, one, other):
    found = of(*values)
    near, far = sorted((one, other), key=lambda value: abs(value - found.mean))
    assert found.consistency(near) >= found.consistency(far) >= 0.0
    assert math.isfinite(found.consistency(near))
