"""How idle devices will be: values by hand, and what holds of every set of windows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.crds.harvest.busy import BusyCells
from rowen.scheduler.device import DeviceView
from rowen.scheduler.model.alignment import alignment
from rowen.scheduler.model.idle import IdleLevel, IdleWindow, bursts, idle_level, sampling_deviation, wander
from rowen.scheduler.model.prediction import Prediction, combined, foreseen, idle_fraction, idle_of, seen_fraction

MINUTE = IdleWindow(60.0, 0.9)
HOUR = IdleWindow(3600.0, 0.5)


def busy(*stretches: tuple[int, int]) -> BusyCells:
    """Of a minute in cells of a second."""
    return BusyCells(sum(1 << second for begin, end in stretches for second in range(begin, end)), 60)


def device(id_: str, idle: float, *stretches: tuple[int, int], hour: float | None = None) -> DeviceView:
    idles = () if hour is None else (IdleWindow(3600.0, hour),)
    return DeviceView("n", id_, "cpu", 2**33, idle, busy(*stretches), idles)


def test_bursts_are_counted() -> None:
    assert bursts(busy()) == 0
    assert bursts(busy((0, 1), (2, 10), (59, 60))) == 3


@pytest.mark.parametrize(
    ("idle", "count", "deviation"),
    # (0.6 · 8 + 1) / 10 = 0.58: 0.58 · 0.42 · √(2 / 8). A silent minute: (1 + 1) / 3: 2/9 · √2.
    [(0.6, 8, 0.1218), (1.0, 1, 0.3142697), (1.0, 0, 0.3142697), (0.5, 200, 0.025)],
)
def test_the_noise_of_a_window(idle: float, count: float, deviation: float) -> None:
    assert sampling_deviation(idle, count) == pytest.approx(deviation)


def test_a_level_wanders_the_further_the_longer() -> None:
    assert wander(3600.0) == pytest.approx(0.05)
    assert wander(36.0) == pytest.approx(0.005)
    assert wander(8 * 3600.0) == pytest.approx(0.1414214)
    assert wander(86400.0) == 0.15


def test_a_noisy_minute_counts_for_less_than_a_steady_hour() -> None:
    """Weights 1 / (0.0923760² + 0.0064550²) = 116.618 and 1 / (0.0186339² + 0.05²) = 351.220."""
    level = idle_level(MINUTE, 6, (HOUR,))
    assert level.fraction == pytest.approx((116.618 * 0.9 + 351.220 * 0.5) / 467.838, abs=1e-5)
    assert level.deviation == pytest.approx(467.838**-0.5, abs=1e-5)


def test_a_minute_with_many_bursts_counts_for_more() -> None:
    assert idle_level(MINUTE, 600, (HOUR,)).fraction > 0.8
    # A minute without a single burst is no certainty.
    assert idle_level(IdleWindow(60.0, 1.0), 0, (HOUR,)).fraction < 0.6


def test_without_longer_windows_the_report_stands_with_its_noise() -> None:
    """Without bursts as with one: (0.9 + 1) / 3 = 0.6333 · 0.3667 · √2, and a wander of 0.0064550."""
    silent = idle_level(MINUTE, 0)
    assert silent.fraction == pytest.approx(0.9)
    assert silent.deviation == pytest.approx((0.3284118**2 + 0.0064550**2) ** 0.5, abs=1e-6)
    assert idle_level(MINUTE, 1) == silent
    alone = idle_level(MINUTE, 6)
    assert alone.fraction == pytest.approx(0.9)
    assert alone.deviation == pytest.approx((0.0923760**2 + 0.0064550**2) ** 0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("minute", "count", "fraction"),
    # The mean of 0.8 over an hour and a day, and at most 0.2 + 2 · 0.2 · 0.8 · √(2 / 32), 0.05 + 2 · 0.05 · 0.95 · √2.
    [(0.0, 1, 0.0), (0.0, 0, 0.0), (0.2, 32, 0.28), (0.05, 1, 0.05 + 0.095 * 2**0.5)],
)
def test_what_is_busy_now_is_not_promised_by_its_last_day(minute: float, count: int, fraction: float) -> None:
    longer = (IdleWindow(3600.0, 0.8), IdleWindow(86400.0, 0.8))
    assert idle_level(IdleWindow(60.0, minute), count, longer).fraction == pytest.approx(fraction)


@pytest.mark.parametrize("minute", [0.4, 0.6, 1.0])
def test_one_noisy_minute_is_no_veto(minute: float) -> None:
    """One burst or two of 20 s in a minute, as every 100 s has one."""
    level = idle_level(IdleWindow(60.0, minute), 1, (IdleWindow(3600.0, 0.8),))
    assert 0.78 < level.fraction < 0.82


FRACTIONS = st.floats(0, 1)


@given(FRACTIONS, st.integers(0, 100), st.lists(st.tuples(st.floats(60, 1e5), FRACTIONS), max_size=3))
def test_a_level_lies_among_its_windows(now: float, count: int, longer: list[tuple[float, float]]) -> None:
    level = idle_level(IdleWindow(60.0, now), count, [IdleWindow(*window) for window in longer])
    fractions = [now, *(fraction for _, fraction in longer)]
    assert min(fractions) - 1e-9 <= level.fraction <= max(fractions) + 1e-9
    assert level.deviation >= 0.0


@given(st.floats(0, 0.9), st.floats(0, 0.9), st.integers(0, 60), st.floats(0, 0.1), st.floats(0, 0.1))
def test_more_idle_never_foretells_less(now: float, hour: float, count: int, more: float, longer: float) -> None:
    """All windows together, as one that is idler in the last minute is so in the last hour."""
    before = idle_level(IdleWindow(60.0, now), count, (IdleWindow(3600.0, hour),))
    after = idle_level(IdleWindow(60.0, now + more), count, (IdleWindow(3600.0, hour + longer),))
    assert after.fraction >= before.fraction - 1e-9


def test_what_is_foreseen_of_a_device_keeps_what_was_seen() -> None:
    view = foreseen(device("a", 0.9, (0, 1), (10, 11), (20, 21), (30, 31), (40, 41), (50, 51), hour=0.5), 60.0)
    level = idle_level(MINUTE, 6, (HOUR,))
    assert (view.idle, view.deviation, view.seen_idle) == (level.fraction, level.deviation, 0.9)
    assert idle_of([view]) == level
    assert idle_fraction([view]) == level.fraction
    assert seen_fraction([view]) == 0.9


def test_a_set_in_lockstep_is_idle_only_together() -> None:
    first, second = device("a", 0.5, (0, 30)), device("b", 0.5, (20, 50))
    assert seen_fraction([first, second]) == pytest.approx(10 / 60)
    assert idle_fraction([first, second]) == pytest.approx(10 / 60)
    never = device("c", 0.0, (0, 60))
    assert idle_fraction([first, never]) == 0.0


def test_of_devices_that_do_not_say_when_they_were_busy_no_set_is_idle() -> None:
    first, unknown = device("a", 0.5, (0, 30)), replace(device("b", 0.5), busy=None)
    assert seen_fraction([unknown]) == 0.5
    assert idle_fraction([first, unknown]) == 0.0
    assert (bursts(None), alignment(None, None), alignment(first.busy, None)) == (0, 0.0, 0.0)


def test_a_set_is_foreseen_by_its_least_idle_device_and_the_part_that_is_common() -> None:
    """Together they are idle for a third of the time in which each of them is."""
    first, second = (
        replace(device(id_, 0.5, span), idle=idle, seen_idle=0.5, deviation=deviation)
        for id_, span, idle, deviation in (("a", (0, 30), 0.3, 0.02), ("b", (20, 50), 0.6, 0.05))
    )
    assert idle_fraction([first, second]) == pytest.approx(0.1)
    assert idle_of([first, second]).deviation == 0.05
    assert seen_fraction([first, second]) == pytest.approx(10 / 60)


def test_independent_doubts_add_up_by_their_squares() -> None:
    assert combined(IdleLevel(0.5, 0.15), 0.4, 1.0) == pytest.approx(0.5)
    assert combined(IdleLevel(0.5, 0.0), 0.12, 0.5) == pytest.approx(0.13)
    assert combined(IdleLevel(0.0, 0.3), 0.0, 1.0) == 0.0


def test_a_prediction_is_a_product() -> None:
    plain = Prediction(0.5, 0.8, 0.1, 0.5)
    assert (plain.fraction, plain.uncertainty) == (pytest.approx(0.2), 0.0)
    assert Prediction(0.5, 0.8, 1.0, 0.5, fits=False).fraction == 0.0


def test_a_window_counts_once_it_is_twice_as_long_as_the_one_before() -> None:
    alone = idle_level(MINUTE, 6)
    assert idle_level(MINUTE, 6, (IdleWindow(119.0, 0.5),)) == alone
    assert idle_level(MINUTE, 6, (IdleWindow(120.0, 0.5),)).fraction < alone.fraction
    assert idle_level(MINUTE, 6, (HOUR, IdleWindow(7199.0, 0.1))) == idle_level(MINUTE, 6, (HOUR,))
    # The hour after one that is passed over counts all the same.
    assert idle_level(MINUTE, 6, (IdleWindow(119.0, 0.1), HOUR)) == idle_level(MINUTE, 6, (HOUR,))
