import math
import random
from statistics import median

import pytest
from reporting.blocks import (
    LEAST_BLOCKS,
    LEAST_COVERAGE,
    Increase,
    Interval,
    against_itself,
    increase,
    median_interval,
    there_and_back,
    verdict,
)

RUNS = 1000
BAR = 0.05


def found(low, high, estimate=0.0):
    return Increase(12, estimate, Interval(low, high, 0.96))


def repeats(source, count, *, level=1.0, noise=0.04, outliers=0.05):
    """Per-repeat figures as a busy machine gives them: noise in proportion, and a hiccup in some repeats."""
    return [
        level * math.exp(source.gauss(0, noise)) * (1.8 if source.random() < outliers else 1.0) for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [
        (6, 1, 6, 1 - 2 / 64),
        (8, 1, 8, 1 - 2 / 256),
        (9, 2, 8, 1 - 2 * 10 / 512),
        (10, 2, 9, 1 - 2 * 11 / 1024),
        (12, 3, 10, 1 - 2 * 79 / 4096),
        (20, 6, 15, 1 - 2 * 21700 / 2**20),
    ],
)
def test_interval_of_the_median_lies_between_ordered_values(count, low, high, coverage):
    values = random.Random(count).sample(range(1, count + 1), count)
    assert median_interval(values) == Interval(low, high, pytest.approx(coverage))


def test_too_few_blocks_have_no_interval():
    assert LEAST_BLOCKS == 6
    assert median_interval([1.0] * (LEAST_BLOCKS - 1)) is None
    assert median_interval([]) is None
    few = increase([(1.0, 1.0)] * 3)
    assert (few.blocks, few.estimate, few.interval) == (3, 0.0, None)
    assert few.missing == "3 of the 6 blocks that an interval of 95% takes"


def test_increase_is_the_median_over_blocks_of_their_ratios():
    pairs = [(1.1, 1.0), (2.4, 2.0), (3.9, 3.0), (8.0, 8.0), (90.0, 10.0), (1.0, 2.0)]
    result = increase(pairs)
    assert (result.blocks, result.estimate) == (6, pytest.approx(0.15))
    assert result.interval == Interval(pytest.approx(-0.5), pytest.approx(8.0), pytest.approx(1 - 2 / 64))


def test_a_block_that_lacks_a_figure_is_left_out():
    assert increase([(math.nan, 1.0), (1.0, math.nan), (1.5, 1.0)]) == Increase(1, 0.5, None)
    assert increase([(math.nan, 1.0)]) == Increase(0, None, None)
    assert increase([(math.inf, math.inf), (1.5, 1.0)]) == Increase(1, 0.5, None)


def test_a_figure_of_failed_requests_is_the_largest_and_a_base_of_them_the_least():
    assert increase([(math.inf, 1.0)]).estimate == math.inf
    assert increase([(1.0, math.inf)]).estimate == -1.0


def test_one_outlier_in_the_server_alone_is_no_effect():
    alone = [36.0, 37.0, 35.5, 36.2, 65.0, 36.8, 35.9, 36.4, 37.1, 36.6, 35.8, 36.3]
    tenant = [36.5, 36.4, 36.1, 35.7, 36.9, 36.2, 36.6, 35.9, 36.3, 36.0, 36.7, 36.8]
    result = increase(list(zip(tenant, alone, strict=True)))
    assert result.estimate == pytest.approx(0.0, abs=0.02)
    assert result.interval is not None
    assert -0.05 < result.interval.low < 0 < result.interval.high < 0.05
    assert verdict(result, BAR) == "within the bar"


def test_without_an_effect_none_is_found_more_often_than_promised():
    source = random.Random(1)
    results = [increase(list(zip(repeats(source, 12), repeats(source, 12), strict=True))) for _ in range(RUNS)]
    wrong = sum(not result.interval.low <= 0 <= result.interval.high for result in results)
    assert wrong / RUNS <= 1 - LEAST_COVERAGE
    assert sum(verdict(result, BAR) == "over the bar" for result in results) / RUNS <= (1 - LEAST_COVERAGE) / 2


@pytest.mark.parametrize("count", [6, 9, 12, 20])
def test_coverage_is_as_promised(count):
    source, effect = random.Random(count), 0.1
    held, promised = 0, 0.0
    for _ in range(RUNS):
        result = increase(list(zip(repeats(source, count, level=1 + effect), repeats(source, count), strict=True)))
        held += result.interval.low <= effect <= result.interval.high
        promised = result.interval.coverage
    assert held / RUNS == pytest.approx(promised, abs=0.02)


def test_where_the_effect_differs_by_stretch_the_interval_is_of_the_median_over_the_stretches():
    """Half of the blocks have no effect, half have one of 20 %: half of all ratios lie below 10 %."""
    source, held = random.Random(4), 0
    for _ in range(RUNS):
        levels = [1.0, 1.2] * 10
        noisy = [repeats(source, 1, level=level, outliers=0)[0] for level in levels]
        found_here = increase([(value, 1.0) for value in noisy])
        held += found_here.interval.low <= 0.0954 <= found_here.interval.high
    assert held / RUNS >= found_here.interval.coverage


def test_a_true_effect_is_found():
    source = random.Random(2)
    results = [
        increase(list(zip(repeats(source, 20, level=1.1), repeats(source, 20), strict=True))) for _ in range(RUNS)
    ]
    assert median(result.estimate for result in results) == pytest.approx(0.1, abs=0.005)
    assert sum(result.interval.low > 0 for result in results) / RUNS > 0.95
    assert sum(verdict(result, BAR) == "within the bar" for result in results) / RUNS < (1 - LEAST_COVERAGE) / 2


def test_a_large_effect_is_over_the_bar():
    source = random.Random(3)
    results = [
        increase(list(zip(repeats(source, 12, level=2.5), repeats(source, 12), strict=True))) for _ in range(RUNS)
    ]
    assert sum(verdict(result, BAR) == "over the bar" for result in results) / RUNS > 0.99


def test_noise_is_the_arm_against_itself_two_by_two():
    result = against_itself([1.0, 1.1, 2.0, 1.0, 4.0, 4.4, 1.0, 1.0, 1.0, 0.9, 5.0, 6.0])
    assert (result.blocks, result.estimate) == (6, pytest.approx(0.05))
    assert result.interval == Interval(pytest.approx(-0.5), pytest.approx(0.2), pytest.approx(1 - 2 / 64))
    assert against_itself([1.0, 1.5, 9.0]) == Increase(1, 0.5, None)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.02, 0.05, "within the bar"),
        (-0.02, 0.051, "cannot tell (interval wider than the bar)"),
        (0.02, 0.06, "cannot tell (interval on both sides of the bar)"),
        (0.05, 0.09, "cannot tell (interval on both sides of the bar)"),
        (0.051, 0.3, "over the bar"),
    ],
)
def test_verdict(low, high, expected):
    assert verdict(found(low, high), BAR) == expected


def test_an_interval_as_wide_as_the_bar_is_not_wider():
    assert verdict(found(0.0625, 0.1875), 0.125) == "cannot tell (interval on both sides of the bar)"
    assert verdict(found(0.0, 0.1875), 0.125) == "cannot tell (interval wider than the bar)"


def test_without_an_interval_there_is_no_verdict():
    assert verdict(Increase(2, 3.0, None), BAR) == (
        "cannot tell (no interval: 2 of the 6 blocks that an interval of 95% takes)"
    )


def test_orders_go_there_and_back():
    blocks = there_and_back((5.0, 61.0), ("alone", "rowen"), 4, random.Random(0), first=3)
    assert [block.number for block in blocks] == list(range(3, 11))
    assert [block.start for block in blocks] == [5.0] * 4 + [61.0] * 4
    assert all(first.arms == second.arms[::-1] for first, second in zip(blocks[::2], blocks[1::2], strict=True))
    assert {block.arms for block in blocks[::2]} == {("alone", "rowen"), ("rowen", "alone")}


def test_each_block_has_every_arm_and_each_stretch_an_order_of_its_own():
    blocks = there_and_back((5.0, 61.0), "abcdefg", 1, random.Random(0))
    assert [sorted(block.arms) for block in blocks] == [list("abcdefg")] * 2
    assert blocks[0].arms not in (blocks[1].arms, blocks[1].arms[::-1])


def test_orders_follow_from_the_seed():
    orders = [there_and_back((5.0,), "abcdefg", 3, random.Random(seed)) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
