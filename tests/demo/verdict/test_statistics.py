import math

import pytest
from outcomes import outcome

from rowen.demo.verdict.statistics import clip, covered, latency, percentile, recent, union


@pytest.mark.parametrize(
    ("samples", "percent", "expected"),
    [
        ([math.inf] * 2, 50, math.inf),
        ([1.0, math.inf], 50, math.inf),
        ([1.0] * 3 + [math.inf], 50, 1.0),
        ([1.0], 99, 1.0),
        ([1.0, 2.0], 50, 1.5),
        ([3.0, 1.0, 2.0], 100, 3.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 25, 2.0),
    ],
)
def test_percentile(samples, percent, expected):
    assert percentile(samples, percent) == pytest.approx(expected)


def test_percentile_of_nothing_is_nan():
    assert math.isnan(percentile([], 50))


def test_failed_requests_count_as_errors_only():
    found = latency([outcome(ttft=0.1), outcome(ttft=0.2, tpot=None), outcome(ttft=9.0, error="reset")])
    assert (found.requests, found.errors) == (3, 1)
    assert found.ttft_p50 == pytest.approx(0.15)
    assert found.tpot_p99 == pytest.approx(0.02)


def test_recent_counts_from_the_end_of_a_request():
    assert recent([outcome(0.0), outcome(5.0)], now=10.0, window=5.0) == [outcome(5.0)]


def test_spans():
    assert union([(3, 4), (1, 2), (1.5, 3.5), (6, 6)]) == [(1, 4)]
    assert clip([(0, 2), (3, 5), (7, 8)], 1, 4) == [(1, 2), (3, 4)]
    assert covered([(0, 2), (1, 3), (5, 6)]) == 4
