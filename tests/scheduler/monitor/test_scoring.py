"""What came of a promise: values by hand."""

import pytest

from rowen.scheduler.monitor.scoring import LEAST_SECONDS, SCORED_SECONDS, ErrorSample, Score, error_of


@pytest.mark.parametrize(("seconds", "weight"), [(60.0, 0.1), (150.0, 0.25), (300.0, 0.5), (600.0, 1.0), (900.0, 1.0)])
def test_a_promise_that_ended_early_counts_for_its_part_of_ten_minutes(seconds: float, weight: float) -> None:
    """30 tokens a second of 100 alone."""
    found = error_of(Score(0.5, seconds, round(30 * seconds)), "class", 100.0, LEAST_SECONDS)
    assert found == ErrorSample("class", 0.5, pytest.approx(0.3), weight)


def test_less_than_a_minute_of_a_promise_says_nothing() -> None:
    assert error_of(Score(0.5, 59.9, 1800), "class", 100.0, LEAST_SECONDS) is None


def test_a_promise_that_goes_on_is_scored_after_ten_minutes() -> None:
    assert not Score(0.5, 599.9, 1).due(SCORED_SECONDS)
    assert Score(0.5, 600.0, 1).due(SCORED_SECONDS)


def test_a_sample_is_a_whole_one_where_nothing_else_is_said() -> None:
    assert ErrorSample("class", 0.5, 0.4).weight == 1.0
