import random

import pytest

from rowen.runtime.coserve.planning.ratio import Ratio


def observed(*ratios: float) -> Ratio:
    ratio = Ratio()
    for each in ratios:
        ratio.observe(each)
    return ratio


def test_nothing_is_off_at_first() -> None:
    assert (Ratio().value, Ratio().count, Ratio().at) == (1.0, 0, 0)


def test_the_first_observation_is_believed() -> None:
    ratio = Ratio()
    assert not ratio.observe(3.0)
    assert ratio.value == 3.0


def test_few_observations_are_averaged() -> None:
    # The second one counts half.
    assert observed(1.0, 1.1).value == pytest.approx(1.05)
    assert (observed(1.0, 1.1).count, observed(1.0, 1.1).at) == (2, 0)


def test_one_stall_moves_it_by_little() -> None:
    ratio = observed(*[1.0] * 50)
    assert not ratio.observe(20.0)
    assert ratio.value == pytest.approx(1.0, abs=0.01)
    assert observed(*[1.0] * 50, 20.0, 1.0, 1.0, 1.0).value == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("other", [0.5, 2.0])
def test_another_machine_is_believed_with_the_third_observation(other: float) -> None:
    ratio = observed(*[1.0] * 50)
    assert not ratio.observe(other)
    assert not ratio.observe(other)
    assert ratio.observe(other)
    assert ratio.value == pytest.approx(other)


@pytest.mark.parametrize(("other", "believed"), [(1.028, True), (0.972, True), (1.023, False), (0.977, False)])
def test_far_off_is_four_spreads(other: float, believed: bool) -> None:
    """Of 0.5 % each, and a tenth more by each of the first two: 2.42 % from the 1.0016 or 0.9984 that they make it."""
    ratio = observed(*[1.0] * 50, other, other)
    assert ratio.observe(other) == believed


def test_what_has_gone_over_counts_as_two_and_may_be_far_off_again() -> None:
    ratio = observed(*[1.0] * 50, 2.0, 2.0, 2.0)
    assert ratio.count == 2
    ratio.observe(2.2)
    # The spread is that of the beginning, 5 %, of which three count in full.
    assert ratio.value == pytest.approx(2.0 * (1 + 0.1 / 3))


def test_the_spread_grows_by_a_tenth_with_what_is_beyond_it() -> None:
    # Half of 10 %, which is more than 5; then a third of three times 5.5 %.
    assert observed(1.0, 1.1, 1.05 * 1.2).value == pytest.approx(1.05 * (1 + 0.165 / 3))


def test_the_spread_shrinks_by_a_tenth_with_what_is_within_it_down_to_half_a_percent() -> None:
    # A quarter of three times 5 % * 0.81.
    assert observed(1.0, 1.0, 1.0, 1.2).value == pytest.approx(1 + 0.1215 / 4)
    assert observed(*[1.0] * 200, 1.02).value == pytest.approx(1 + 0.015 / 20)


@pytest.mark.parametrize("off", [(0.5, 2.0, 0.5), (2.0, 0.5, 2.0), (2.0, 2.0, 1.0), (0.5, 0.5, 1.0)])
def test_observations_off_on_both_sides_say_nothing_nor_do_two(off: tuple[float, ...]) -> None:
    assert observed(*[1.0] * 50, *off).value == pytest.approx(1.0, abs=0.02)


def test_noise_is_averaged_out() -> None:
    draw = random.Random(3)
    assert observed(*[draw.gauss(1.2, 0.06) for _ in range(400)]).value == pytest.approx(1.2, rel=0.03)


def test_what_is_believed_from_the_beginning_is_moved_by_one_observation_little() -> None:
    ratio = Ratio(value=2.0, count=4)
    assert not ratio.observe(20.0)
    assert ratio.value == pytest.approx(2.0 * 1.03)
    # Three that agree are believed as ever.
    assert not ratio.observe(21.0)
    assert ratio.observe(22.0)
    assert ratio.value == 21.0


def test_so_many_steps_are_forgotten_at_once() -> None:
    once, often = observed(2.5), observed(2.5)
    assert once.forget(16)
    for _ in range(16):
        often.forget()
    assert once.value == pytest.approx(often.value)


@pytest.mark.parametrize("value", [2.5, 0.4])
def test_what_nothing_tells_any_more_is_forgotten_by_and_by(value: float) -> None:
    ratio = observed(value)
    assert ratio.forget()
    assert ratio.value == pytest.approx(value + (1 - value) / 256)
    for _ in range(1500):
        ratio.forget()
    assert ratio.value == pytest.approx(1.0, abs=0.01)
    assert not ratio.forget()


def test_it_follows_what_drifts() -> None:
    assert observed(*[1 + 0.001 * step for step in range(500)]).value == pytest.approx(1.5, rel=0.03)
