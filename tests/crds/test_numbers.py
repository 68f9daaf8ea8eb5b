"""Whole numbers and parts of a whole, as texts of a report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.crds.text.numbers import apart, joined
from rowen.crds.text.parts import checked, packed, unpacked


@given(st.lists(st.integers(0, 2**70)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert apart(joined(numbers)) == numbers


def test_a_number_takes_a_byte_for_each_seven_bits() -> None:
    assert (joined([0, 127]), joined([128]), joined([])) == ("AH8=", "gAE=", "")


@pytest.mark.parametrize("text", ["!", "A", "gA==", "AYA="])
def test_a_text_that_holds_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"cut off|base64|padd|characters"):
        apart(text)


@given(st.integers(1, 2**48), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=32))
def test_an_amount_is_off_by_half_a_65535th_of_the_whole_at_most(whole: int, fractions: list[float]) -> None:
    amounts = [round(whole * fraction) for fraction in fractions]
    text = packed(amounts, whole)
    assert len(text) <= 88
    assert checked(text) == text
    # And by half a unit, since it is a whole number again.
    assert unpacked(text, whole) == pytest.approx(amounts, rel=1e-12, abs=whole / 65535 / 2 + 0.5)


def test_amounts_beyond_the_whole_are_the_whole() -> None:
    assert unpacked(packed([-5, 0, 10, 11], 10), 10) == [0, 0, 10, 10]


@pytest.mark.parametrize("text", ["", "AA==", "AAAA", "!!!!"])
def test_a_text_that_holds_no_parts(text: str) -> None:
    with pytest.raises(ValueError, match=r"parts|base64"):
        unpacked(text, 10)
