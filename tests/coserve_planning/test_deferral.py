from dataclasses import replace

import pytest
from coserve_planning.machines import planner

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.deferral import Decision, Deferral, Outlook, Waiting, decided
from rowen.runtime.coserve.planning.planner import Planner

DECODE = Load(4, 800)
WAITING = Waiting(prompts=2, tokens=80, context=1640, seconds=0.25, load=DECODE, free_tokens=100, free_seats=8)
OUTLOOK = Outlook(riding=True, kept=True, step=0.125, prefill=0.5, bound=1.0)
HELD = Decision(True, "they may wait for more")


def test_what_may_wait_is_held() -> None:
    assert decided(WAITING, OUTLOOK) == HELD


@pytest.mark.parametrize("load", [DECODE, Load()])
def test_nothing_waits_while_nothing_rides(load: Load) -> None:
    assert decided(replace(WAITING, load=load), replace(OUTLOOK, riding=False)) == Decision(False, "nothing rides")


def test_riders_that_have_the_engine_for_themselves_gain_too() -> None:
    assert decided(replace(WAITING, load=Load()), OUTLOOK) == HELD


def test_nothing_waits_while_requests_do_not_get_what_they_were_promised() -> None:
    found = decided(WAITING, replace(OUTLOOK, kept=False))
    assert found == Decision(False, "requests do not get what they were promised")


def test_a_step_with_a_prompt_in_it_takes_all() -> None:
    found = decided(replace(WAITING, load=replace(DECODE, prefill_tokens=1)), OUTLOOK)
    assert found == Decision(False, "a prompt is computed anyway")


@pytest.mark.parametrize(("tokens", "hold"), [(99, True), (100, False), (101, False)])
def test_a_step_that_is_full_is_computed(tokens: int, hold: bool) -> None:
    found = decided(replace(WAITING, tokens=tokens), OUTLOOK)
    assert found == (HELD if hold else Decision(False, "they fill a step"))


@pytest.mark.parametrize(("seats", "hold"), [(3, True), (2, False), (0, False)])
def test_nobody_waits_for_more_than_there_are_seats(seats: int, hold: bool) -> None:
    found = decided(replace(WAITING, free_seats=seats), OUTLOOK)
    assert found == (HELD if hold else Decision(False, "they fill the seats"))


@pytest.mark.parametrize(
    ("seconds", "step", "prefill", "hold"),
    [
        # A tenth of the bound is nobody's.
        (0.27, 0.125, 0.5, True),
        (0.28, 0.125, 0.5, False),
        (0.25, 0.14, 0.5, True),
        (0.25, 0.16, 0.5, False),
        (0.25, 0.125, 0.52, True),
        (0.25, 0.125, 0.53, False),
        (0.0, 0.5, 0.5, False),
    ],
)
def test_they_wait_as_long_as_the_objective_leaves(seconds: float, step: float, prefill: float, hold: bool) -> None:
    found = decided(replace(WAITING, seconds=seconds), replace(OUTLOOK, step=step, prefill=prefill))
    assert found == (HELD if hold else Decision(False, "they have no time left"))


def test_all_of_the_time_that_is_left_may_be_waited() -> None:
    assert decided(replace(WAITING, seconds=0.0), replace(OUTLOOK, step=0.4, prefill=0.5)).hold


def taught(**changed: float) -> Planner:
    found = planner(**changed)
    found.plan(DECODE, 100, has_parts=False)
    return found


def longest(deferral: Deferral, waiting: Waiting) -> float:
    """Seconds that they wait at most, in steps of a millisecond."""
    return next(each for each in range(2000) if not deferral.decide(replace(waiting, seconds=each / 1000)).hold) / 1000


def test_the_slack_is_the_bound_less_the_next_step_and_the_prompts() -> None:
    # 900 ms, less 45 of the TPOT's 50 for the next step, and 105 % of 15 ms for the weights, 40 for the tokens,
    # 0.8 for the rows and 2.4 for what is attended to.
    assert longest(Deferral(taught()), WAITING) == pytest.approx(0.9 - 0.045 - 1.05 * 0.0582, abs=0.005)


def test_where_somebody_is_behind_nobody_gains_by_waiting() -> None:
    deferral = Deferral(taught())
    for due_in in (-1.0, 0.016):
        deferral.planner.token_pace.due_in = due_in
        assert deferral.decide(WAITING) == Decision(False, "nothing rides")
    deferral.planner.token_pace.due_in = 0.03
    assert deferral.decide(WAITING) == HELD


def test_longer_prompts_wait_shorter() -> None:
    deferral = Deferral(taught())
    longer = replace(WAITING, tokens=400, context=80_200, free_tokens=1000)
    assert longest(deferral, longer) < longest(deferral, WAITING) - 0.15


def test_without_requests_the_next_look_is_a_part_away() -> None:
    # A tenth of a second, and no rows beside them.
    assert longest(Deferral(taught()), replace(WAITING, load=Load())) == pytest.approx(0.8 - 1.05 * 0.055, abs=0.01)


def test_riders_that_have_nothing_to_do_hold_nobody() -> None:
    found = taught()
    found.plan(DECODE, 0, has_parts=False)
    assert Deferral(found).decide(WAITING) == Decision(False, "nothing rides")


def test_first_tokens_that_came_too_late_shorten_the_wait() -> None:
    found = taught()
    deferral = Deferral(found)
    before = longest(deferral, WAITING)
    for _ in range(320):
        found.observe_first_token(0.2, 0.0)
    assert longest(deferral, WAITING) == before
    # One is allowed for; it was late for riders' sake.
    found.observe_first_token(1.1, 0.5)
    assert longest(deferral, WAITING) == pytest.approx(before - 0.9 * 0.18, abs=0.01)


def test_nobody_waits_once_more_are_late_than_may_be() -> None:
    found = taught()
    found.observe_first_token(1.1, 0.0)
    assert Deferral(found).decide(replace(WAITING, seconds=0.0)).reason == "requests do not get what they were promised"
    for _ in range(100):
        found.observe_first_token(0.2, 0.0)
    assert Deferral(found).decide(replace(WAITING, seconds=0.0)).hold
