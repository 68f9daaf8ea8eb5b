"""When running requests need their next token, and what became of those that have ended."""

import math

import pytest

from rowen.crds.ride.terms import LatencyBound
from rowen.runtime.coserve.planning.next_tokens import NextTokens
from rowen.runtime.coserve.planning.token_pace import TokenPace


def pace(seconds: float = 0.1) -> TokenPace:
    return TokenPace(LatencyBound(percentile=90.0, seconds=seconds / 0.9))


def begun(*names: str, at: float = 10.0, ridden: float = 0.0) -> NextTokens:
    """Requests that got their first token just now."""
    found = NextTokens(pace())
    found.finish(at, ridden)
    assert found.begin((), [(name, 1) for name in names]) == []
    return found


def step(found: NextTokens, end: float, ridden: float = 0.0, **tokens: int) -> None:
    """One that gives each of these a token beyond those that it has."""
    assert found.begin((), tokens.items()) == []
    found.finish(end, ridden)


def test_without_requests_nothing_is_due() -> None:
    assert NextTokens(pace()).due_in(5.0) == math.inf


def test_the_second_token_is_due_a_gap_after_the_first() -> None:
    assert begun("a").due_in(10.0) == pytest.approx(0.1)
    assert begun("a").due_in(10.03) == pytest.approx(0.07)


def test_what_was_early_may_come_later_next_time() -> None:
    found = begun("a")
    step(found, 10.02, a=1)
    assert found.due_in(10.02) == pytest.approx(0.18)


def test_what_was_late_is_due_earlier() -> None:
    found = begun("a")
    step(found, 10.25, a=1)
    assert found.due_in(10.25) == pytest.approx(-0.05)


def test_who_is_most_behind_counts() -> None:
    found = begun("a")
    step(found, 10.15, a=1)
    found.begin((), [("a", 2), ("b", 1)])
    assert found.due_in(10.15) == pytest.approx(0.05)
    step(found, 10.16, a=2, b=1)
    step(found, 10.35, a=3, b=2)
    # The first has four tokens after 0.35 s, the second three after 0.2.
    assert found.due_in(10.35) == pytest.approx(0.05)
    assert found.begin(["a"], [("b", 3)]) == [(pytest.approx(0.35 / 3), 0.0)]
    assert found.due_in(10.35) == pytest.approx(0.1)


def test_who_is_no_part_of_a_step_is_not_waited_for_and_need_not_make_up_for_it() -> None:
    found = begun("a", "b")
    step(found, 10.08, a=1, b=1)
    step(found, 10.25, a=2)
    step(found, 10.5, a=3)
    # The first one has four tokens, and may have had them by 0.3 s and the next by 0.4.
    assert found.due_in(10.5) == pytest.approx(-0.1)
    # Of the other one 0.42 s do not count.
    found.begin((), [("b", 2)])
    assert found.due_in(10.5) == pytest.approx(0.12)
    found.finish(10.6, 0.0)
    assert found.begin(["b"], ()) == [(pytest.approx(0.3), 0.0)]


def test_who_goes_away_while_it_is_no_part_of_steps_had_its_last_token_before_them() -> None:
    found = begun("a", "b")
    step(found, 10.1, ridden=0.05, a=1, b=1)
    step(found, 12.0, ridden=1.0, a=2)
    assert found.begin(["b"], [("a", 3)]) == [(pytest.approx(0.1), pytest.approx(0.05))]


def test_what_the_pace_becomes_is_for_the_tokens_to_come() -> None:
    slow = TokenPace(LatencyBound(percentile=90.0, seconds=0.1 / 0.9))
    found = NextTokens(slow)
    found.finish(10.0, 0.0)
    found.begin((), [("a", 1)])
    for number in range(1, 101):
        step(found, 10.0 + number / 10, a=number)
    assert found.due_in(20.0) == pytest.approx(0.1)
    # Late for riders' sake: a sixth less for each from here on.
    slow.observe(0.2, 0.15)
    assert found.due_in(20.0) == pytest.approx(0.1)
    step(found, 20.0, a=101)
    assert found.due_in(20.0) == pytest.approx(0.1 + slow.token_seconds)
    assert slow.token_seconds == pytest.approx(0.1 * math.exp(-0.18))


def test_the_next_answer_of_a_session_is_one_of_its_own() -> None:
    found = begun("a")
    step(found, 10.05, a=1)
    step(found, 10.10, a=2)
    step(found, 40.0, other=1)
    found.begin((), [("a", 1)])
    assert found.due_in(40.0) == pytest.approx(0.1)
    found.finish(40.2, 0.0)
    assert found.begin(["a"], ()) == [(pytest.approx(0.2), 0.0)]


def test_for_who_was_not_computed_for_long_nobody_waits() -> None:
    found = begun("a")
    step(found, 112.0, a=1)
    found.begin((), [("a", 2), ("b", 1)])
    assert found.due_in(112.59) == pytest.approx(-102.39)
    assert found.due_in(112.61) == pytest.approx(-0.51)


def test_who_has_ended_had_its_tpot_and_riders_their_part_of_it() -> None:
    found = begun("a", "other", at=10.0, ridden=3.0)
    step(found, 10.3, ridden=3.1, a=1, other=1)
    step(found, 10.4, ridden=3.3, a=2, other=2)
    assert found.begin(["a", "unknown"], ()) == [(pytest.approx(0.2), pytest.approx(0.15))]
    # Once.
    assert found.begin(["a"], ()) == []


def test_a_request_of_one_token_has_no_tpot() -> None:
    assert begun("a").begin(["a"], ()) == []


def test_a_step_that_failed_gives_no_token() -> None:
    found = begun("a")
    found.begin((), [("a", 1)])
    found.begin((), [("a", 1)])
    found.finish(10.2, 0.0)
    assert found.begin(["a"], ()) == [(pytest.approx(0.2), 0.0)]


def test_the_first_token_came_with_the_step_before() -> None:
    found = NextTokens(pace())
    found.finish(10.0, 1.0)
    found.begin((), ())
    found.finish(11.0, 2.0)
    found.begin((), [("a", 1)])
    found.finish(11.5, 2.25)
    assert found.begin(["a"], ()) == [(pytest.approx(0.5), pytest.approx(0.25))]


def test_a_step_that_computed_again_what_was_lost_gives_no_token() -> None:
    found = begun("a")
    step(found, 10.1, a=1)
    step(found, 10.2, a=1)
    assert found.begin(["a"], ()) == [(pytest.approx(0.2), 0.0)]


def test_who_came_before_it_was_looked_at_is_none_of_its_business() -> None:
    found = NextTokens(pace())
    step(found, 10.0, a=5)
    assert found.due_in(10.0) == math.inf
    assert found.begin(["a"], ()) == []
