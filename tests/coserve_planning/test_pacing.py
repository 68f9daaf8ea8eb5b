from collections.abc import Callable
from dataclasses import replace

import pytest
from coserve_planning.machines import planner, step_seconds

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.pacing import Pacing
from rowen.runtime.coserve.planning.planner import LITTLE_TOKENS, PATIENCE_STEPS, Planner

DECODE = Load(4, 800)


def with_rows(tokens: int) -> Load:
    return replace(DECODE, row_tokens=tokens, row_context=100 * tokens)


def taught(**changed: float) -> Pacing:
    found = planner(**changed)
    for _ in range(40):
        for tokens in (4, 16, 40, 100):
            found.observe(with_rows(tokens), step_seconds(with_rows(tokens)))
    return Pacing(found)


def test_rows_get_what_the_step_leaves() -> None:
    tokens = taught().tokens(DECODE)
    # 45 ms less 16.6: 0.6 ms for each with 100 before it.
    assert tokens == pytest.approx(47, abs=4)


def test_rows_get_half_of_it_while_riders_wait() -> None:
    pacing = taught()
    pacing._planner.plan(DECODE, 100, False)
    assert pacing.tokens(DECODE) == pytest.approx(23, abs=3)


@pytest.mark.parametrize("tpot", [0.040 + 0.0005 * number for number in range(10)])
def test_it_is_half_of_what_the_requests_alone_leave(tpot: float) -> None:
    pacing = taught(tpot=tpot)
    pacing._planner.plan(DECODE, 100, False)
    seconds, tokens = pacing._planner.predictor.with_rows(DECODE), pacing.tokens(DECODE)
    assert seconds(tokens) <= (seconds(0) + 0.9 * tpot) / 2 < seconds(tokens + 1)


def test_a_token_at_least_without_requests() -> None:
    assert taught(ttft=0.01).tokens(Load()) == 1


def test_many_without_requests() -> None:
    assert taught().tokens(Load()) == pytest.approx(141, rel=0.1)


def test_no_step_has_more_than_1024() -> None:
    """However long it may take, and whatever was measured."""
    pacing = taught(ttft=100.0)
    pacing._planner.observe(with_rows(2000), step_seconds(with_rows(2000)))
    assert pacing.tokens(Load()) == 1024


@pytest.mark.parametrize("load", [DECODE, Load(0, 0, 100, 5000)])
def test_a_little_now_and_then_where_nothing_has_room(load: Load) -> None:
    pacing = taught(tpot=0.01, ttft=0.1)
    tokens = [pacing.tokens(load) for _ in range(2 * PATIENCE_STEPS)]
    assert tokens == ([0] * (PATIENCE_STEPS - 1) + [LITTLE_TOKENS]) * 2


def test_what_had_room_in_between_puts_that_off() -> None:
    pacing = taught(tpot=0.01)
    for _ in range(PATIENCE_STEPS - 1):
        pacing.tokens(DECODE)
    assert pacing.tokens(Load()) > LITTLE_TOKENS
    tokens = [pacing.tokens(DECODE) for _ in range(PATIENCE_STEPS)]
    assert tokens == [0] * (PATIENCE_STEPS - 1) + [LITTLE_TOKENS]


@pytest.mark.parametrize(
    "late", [lambda found: found.observe_tpot(0.07, 0.0), lambda found: found.observe_first_token(1.5, 0.0)]
)
def test_nothing_regardless_while_requests_do_not_get_what_they_were_promised(late: Callable[[Planner], None]) -> None:
    pacing = taught(tpot=0.01)
    late(pacing._planner)
    assert all(pacing.tokens(DECODE) == 0 for _ in range(3 * PATIENCE_STEPS))


def test_none_while_somebody_is_behind() -> None:
    pacing = taught()
    pacing._planner.token_pace.due_in = 0.01
    assert pacing.tokens(DECODE) == 0
