"""The comparison of ways to keep memory ahead of need, on small loads whose figures are known."""

import pytest
from headroom import PERIOD_SECONDS, WARM_UP_SECONDS, Tally, best_fixed, fixed, measured, policy, strategies

HOURS = 6
PERIODS = int(HOURS * 3600 / PERIOD_SECONDS)
COUNTED = HOURS - WARM_UP_SECONDS / 3600


def burst_every(minutes, size=60, base=10):
    """Handles: of so many minutes' periods the last twenty (ten seconds) hold a burst."""
    period = int(minutes * 60 / PERIOD_SECONDS)
    return [size if index % period >= period - 20 else base for index in range(PERIODS)]


def test_a_fixed_headroom_is_reclaimed_with_every_burst_above_it():
    figures = fixed(burst_every(5), 100, 30).figures()
    assert figures["reclaims_per_hour"] == 12
    assert figures["late_per_hour"] == 12
    assert figures["first_hour_reclaims"] == 12
    assert figures["held_back"] == pytest.approx(0.2 * 580 / 600)
    assert figures["left_for_offline"] == pytest.approx((0.7 * 580 + 0.4 * 20) / 600)


def test_a_fixed_headroom_above_every_burst_is_never_reclaimed():
    figures = fixed(burst_every(5), 100, 60).figures()
    assert (figures["reclaims_per_hour"], figures["late_per_hour"]) == (0, 0)
    assert figures["left_for_offline"] == pytest.approx(0.4)


def test_a_reclaim_right_after_another_is_part_of_it():
    tally = Tally(100)
    tally.time = WARM_UP_SECONDS
    for used, before, headroom in ((10, 5, 10), (20, 10, 20), (30, 20, 30)):
        tally.add(used, before, headroom)
    # Half a second after the first, and a second after it.
    assert tally.reclaims == 2


@pytest.mark.parametrize(("target", "least"), [(12, 0), (11, 20), (2, 20), (1, 59), (0, 60)])
def test_the_best_fixed_headroom_is_the_least_that_keeps_the_target(target, least):
    loads = (burst_every(5, size=20), burst_every(30, size=59), burst_every(60, size=60))
    needs = [max(at) for at in zip(*loads, strict=True)]
    assert best_fixed(needs, 100, target).figures() == fixed(needs, 100, least).figures()


def test_the_policy_keeps_the_target_where_no_headroom_does_not():
    needs = burst_every(1)
    assert fixed(needs, 100, 10).figures()["reclaims_per_hour"] == 60
    figures = policy(needs, 100, 12).figures()
    assert 0 < figures["reclaims_per_hour"] <= 12
    assert figures["left_for_offline"] > 0.2


def test_an_interval_that_falls_by_a_fixed_amount_stays_further_below_the_target():
    needs = burst_every(2)
    own, other = (policy(needs, 100, 12, additive=additive).figures() for additive in (False, True))
    assert 0 < other["reclaims_per_hour"] < own["reclaims_per_hour"] <= 12


def test_a_constant_need_costs_what_the_threshold_leaves_only():
    figures = policy([45] * PERIODS, 100, 12).figures()
    assert figures["reclaims_per_hour"] == 0
    assert figures["held_back"] == pytest.approx(0.06)


def test_a_load_is_measured_with_every_strategy():
    found = measured("bursty", 5.0, 12, 1)
    assert set(found) == set(strategies(100, 12)) == {
        "policy", "target_2", "target_60", "additive", "fixed_0", "fixed_25", "fixed_50", "fixed_75", "best_fixed",
    }  # fmt: skip
    assert found["fixed_0"]["held_back"] == 0
    assert found["policy"]["reclaims_per_hour"] < found["fixed_0"]["reclaims_per_hour"]
    for figures in found.values():
        assert 0 <= figures["held_back"] + figures["left_for_offline"] <= 1
