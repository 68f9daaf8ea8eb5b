"""Intervals of proportions, by the values that Newcombe (1998) prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.operator.services.proportions import Proportion, least_difference, lower, upper

Z95 = 1.959964


def test_an_interval_as_it_is_in_print() -> None:
    part = Proportion(81, 263)
    assert (lower(part, Z95), upper(part, Z95)) == pytest.approx((0.2535, 0.3682), abs=5e-5)
    nobody, few = Proportion(0, 20), Proportion(1, 29)
    assert (lower(nobody, Z95), upper(nobody, Z95)) == pytest.approx((0.0, 0.2005), abs=5e-5)
    assert (lower(few, Z95), upper(few, Z95)) == pytest.approx((0.0018, 0.1963), abs=5e-5)


@pytest.mark.parametrize(
    ("one", "other", "least"),
    [
        ((56, 70), (48, 80), 0.0428),
        ((9, 10), (3, 10), 0.1013),
        ((5, 56), (0, 29), -0.0667),
        ((10, 10), (0, 10), 0.5128),
    ],
)
def test_a_difference_as_it_is_in_print(one: tuple[int, int], other: tuple[int, int], least: float) -> None:
    assert least_difference(Proportion(*one), Proportion(*other), Z95) == pytest.approx(least, abs=5e-4)


def test_parts_add_up() -> None:
    assert Proportion(1, 10) + Proportion(2, 30) == Proportion(3, 40)
    assert Proportion(3, 40).rate == 0.075


parts = st.integers(1, 5000).flatmap(lambda of: st.builds(Proportion, st.integers(0, of), st.just(of)))


@given(parts, st.floats(1.9, 5.0))
def test_the_part_lies_in_its_interval(part: Proportion, z: float) -> None:
    assert 0.0 <= lower(part, z) <= part.rate <= upper(part, z) <= 1.0


@given(parts, parts, st.floats(1.9, 5.0))
def test_more_of_the_one_is_no_smaller_difference(one: Proportion, other: Proportion, z: float) -> None:
    if one.count < one.of:
        more = Proportion(one.count + 1, one.of)
        assert least_difference(more, other, z) >= least_difference(one, other, z) - 1e-12
        assert lower(more, z) >= lower(one, z)
