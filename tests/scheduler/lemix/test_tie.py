"""Trend of idleness by hand, and the order of equal places."""

import pytest

from rowen.scheduler.lemix.tie import TREND_STEP_PER_HOUR, IdleSample, Tie, idleness_trend


def samples(*values, step=1800.0, start=1.7e9):
    return [IdleSample(start + at * step, value) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("given", "trend"),
    [
        # 0.1 more every half hour.
        (samples(0.2, 0.3, 0.4), 0.2),
        (samples(0.4, 0.3), -0.2),
        (samples(0.5, 0.5, 0.5), 0.0),
        # Times −1, 0, 1 (half hours) and 0.1, 0.6, 0.2: Σ(t·(i − 0.3)) = 0.2 − 0.1 = 0.1, over 2: 0.05 a half hour.
        (samples(0.1, 0.6, 0.2), 0.1),
        (samples(0.3), 0.0),
        ([], 0.0),
        ([IdleSample(5.0, 0.1), IdleSample(5.0, 0.9)], 0.0),
    ],
)
def test_the_trend_is_the_slope_of_the_least_squares(given, trend):
    assert idleness_trend(given) == pytest.approx(trend)


def test_what_grows_idler_comes_first_then_what_fits():
    assert TREND_STEP_PER_HOUR == 0.05
    ties = {
        "falls": Tie(-0.3, 0.4),
        "flat": Tie(0.0, 0.1),
        "flat and fits": Tie(0.01, 0.2),
        "grows": Tie(0.2, 0.0),
    }
    assert sorted(ties, key=lambda name: ties[name].rank) == ["grows", "flat and fits", "flat", "falls"]
    assert Tie(0.1, 0.25).rank == (-2, -0.25)
