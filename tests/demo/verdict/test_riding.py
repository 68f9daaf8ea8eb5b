"""What rode in a device's engine, from made-up readings."""

import pytest

from rowen.demo.verdict.riding import (
    Ridden,
    RideReading,
    RideSummary,
    added,
    parse_ridden,
    riding_spans,
    summarize,
    told,
    total,
)

METRICS = """\
# TYPE rowen_steps_total counter
rowen_steps_total{device="cpu1",node="n"} 40.0
# TYPE rowen_riding_steps_total counter
rowen_riding_steps_total{device="cpu1",node="n"} 20.0
# TYPE rowen_ride_tokens_total counter
rowen_ride_tokens_total{device="cpu1",kind="forward",node="n"} 1.0
rowen_ride_tokens_total{device="cpu1",kind="solo",node="n"} 2.0
rowen_ride_tokens_total{device="cpu1",kind="backward",node="n"} 3.0
rowen_ride_tokens_total{device="cpu1",kind="rows",node="n"} 4.0
rowen_ride_tokens_total{device="cpu2",kind="rows",node="n"} 5.0
# TYPE rowen_ride_tokens_created gauge
rowen_ride_tokens_created{device="cpu1",kind="rows",node="n"} 1.7e+09
"""


def readings(*tokens, start=0.0):
    """One a second, with so many tokens of rows each."""
    return [RideReading(start + at, Ridden(rows=count)) for at, count in enumerate(tokens)]


def test_what_rode_is_read_from_the_agents_metrics():
    assert parse_ridden(METRICS) == {"cpu1": Ridden(1, 2, 3, 4, 40, 20), "cpu2": Ridden(rows=5)}


def test_an_agent_without_riders_tells_of_none():
    assert parse_ridden('rowen_idle_seconds_total{device="d"} 1\n') == {}


def test_a_token_counts_once():
    """What goes backward went forward before."""
    ridden = Ridden(forward=1, solo=2, backward=3, rows=4, steps=5, riding_steps=6)
    assert (ridden.tuned, ridden.tokens) == (3, 7)


def test_together_each_counter_is_the_sum():
    assert Ridden(1, 2, 3, 4, 5, 6) + Ridden(10, 20, 30, 40, 50, 60) == Ridden(11, 22, 33, 44, 55, 66)


def test_what_was_added_is_the_difference():
    assert Ridden(11, 22, 33, 44, 55, 66).since(Ridden(1, 2, 3, 4, 5, 6)) == Ridden(10, 20, 30, 40, 50, 60)


def test_an_agent_that_was_started_again_counts_from_zero():
    assert Ridden(rows=5, steps=7).since(Ridden(rows=9, steps=1)) == Ridden(rows=5, steps=7)
    assert total(readings(100, 130, 10, 15)) == Ridden(rows=45)


@pytest.mark.parametrize("given", [[], readings(7)])
def test_one_reading_says_nothing_of_a_time(given):
    assert (added(given), total(given), riding_spans(given)) == ([], Ridden(), [])


def test_a_time_with_more_tokens_is_one_in_which_something_rode():
    assert riding_spans(readings(0, 0, 5, 9, 9, 9, 9, 12, start=10.0)) == [(9.5, 13.0), (14.5, 17.0)]


def test_a_reading_that_has_nothing_new_ends_no_ride():
    """The engine tells once a second, as the agent is asked, and now and then falls between two questions."""
    assert riding_spans(readings(0, 5, 5, 9)) == [(-1.5, 3.0)]


@pytest.mark.parametrize("kind", ["forward", "solo", "backward", "rows"])
def test_work_of_each_kind_is_a_ride(kind):
    assert riding_spans([RideReading(5.0, Ridden()), RideReading(6.0, Ridden(**{kind: 1}))]) == [(3.5, 6.0)]


def test_steps_of_requests_alone_are_none():
    assert riding_spans([RideReading(5.0, Ridden()), RideReading(6.0, Ridden(steps=9))]) == []


def test_a_ride_between_readings_that_lie_far_apart_may_have_been_at_any_time():
    assert riding_spans([RideReading(5.0, Ridden()), RideReading(65.0, Ridden(rows=1))]) == [(3.5, 65.0)]


@pytest.mark.parametrize(
    ("start", "end", "known"), [(10.0, 12.0, True), (9.9, 12.0, False), (10.0, 12.1, False), (11.0, 11.5, True)]
)
def test_what_rode_is_known_between_the_first_reading_and_the_last(start, end, known):
    assert told(readings(0, 0, 0, start=10.0), start, end) is known


def test_without_readings_nothing_is_known():
    assert not told([], 10.0, 12.0)
    assert summarize([], 10.0, 12.0) is None
    assert summarize(readings(0, 5), 10.0, 12.0) is None


def test_a_stretch_in_figures():
    given = readings(*range(0, 100, 10), *[90] * 11)
    assert summarize(given, 5.0, 15.0) == RideSummary(0.4, Ridden(rows=40))


def test_a_stretch_without_a_length_has_no_share():
    assert summarize(readings(0, 5), 1.0, 1.0) == RideSummary(0.0, Ridden())
