"""What the conductor makes of steps from which prompts are held back."""

import pytest
from riding_engine.test_conductor import Engine

from rowen.runtime.coserve.learner import Phase
from rowen.runtime.coserve.planning.planner import Plan

PARTS = [Phase.FORWARD, Phase.HEAD, Phase.BACKWARD]


@pytest.fixture
def engine() -> Engine:
    return Engine()


def held(engine: Engine, decoding: int = 1) -> None:
    """A step of 0.02 s."""
    engine.planner.holds = True
    engine.step(decoding=decoding)


def test_all_of_a_step_that_prompts_were_held_back_from_is_riders_doing(engine: Engine) -> None:
    for _ in range(3):
        engine.conductor._first_tokens.arrived("request-0", engine.clock.now, 10)
        held(engine)
        assert not engine.planner.holds
    # The first had its token after the step in which it came, as the others.
    assert engine.planner.first_tokens == [(0.02, 0.02)] * 3
    engine.conductor._first_tokens.arrived("request-0", engine.clock.now, 10)
    engine.step()
    assert engine.planner.first_tokens[3:] == [(0.02, 0.0)]


def test_with_nothing_else_there_parts_run_until_it_is_asked_again(engine: Engine) -> None:
    engine.planner.idle_part_seconds = 0.025
    engine.learner.phases = PARTS * 4
    held(engine, decoding=0)
    engine.conductor.between(lambda: True)
    # Each takes 0.01 s, and the last one has what is left.
    assert engine.learner.parts == [(Phase.FORWARD, 25, True), (Phase.HEAD, 15, True), (Phase.BACKWARD, 5, True)]
    assert engine.planner.riders_wait
    # Once for each step.
    engine.conductor.between(lambda: True)
    assert len(engine.learner.parts) == 3
    engine.step(decoding=0)
    engine.conductor.between(lambda: True)
    assert len(engine.learner.parts) == 3


def test_a_part_for_which_the_time_left_is_too_short_waits(engine: Engine) -> None:
    engine.planner.idle_part_seconds = 0.013
    engine.learner.phases = PARTS * 4
    held(engine, decoding=0)
    engine.conductor.between(lambda: True)
    # The smallest takes 0.004 s, and 0.003 are left.
    assert engine.learner.parts == [(Phase.FORWARD, 13, True)]
    assert engine.planner.riders_wait


def test_who_knocks_is_taken_in_first(engine: Engine) -> None:
    engine.planner.riders_wait = True
    engine.learner.phases = PARTS * 4
    held(engine, decoding=0)
    engine.conductor.between(lambda: len(engine.learner.parts) < 1)
    assert len(engine.learner.parts) == 1
    assert engine.planner.riders_wait


@pytest.mark.parametrize("idle", [True, False])
def test_riders_that_are_through_hold_nobody(engine: Engine, idle: bool) -> None:
    engine.planner.riders_wait = True
    engine.learner.phases = PARTS.copy()
    if idle:
        engine.conductor.idle(lambda: True)
    else:
        held(engine, decoding=0)
        engine.conductor.between(lambda: True)
    assert len(engine.learner.parts) == 3
    assert not engine.planner.riders_wait


def test_riders_that_come_to_an_idle_engine_are_seen(engine: Engine) -> None:
    engine.learner.phases = PARTS.copy()
    engine.conductor.idle(lambda: len(engine.learner.parts) < 1)
    assert engine.planner.riders_wait


def test_with_others_to_compute_parts_run_as_planned(engine: Engine) -> None:
    engine.planner.next = Plan(0, 0.0, "")
    engine.learner.phases = PARTS.copy()
    held(engine)
    engine.conductor.between(lambda: True)
    assert engine.learner.parts == []


def test_once_riding_has_ended_nobody_is_held(engine: Engine) -> None:
    engine.planner.riders_wait = True
    engine.conductor.end("it is time")
    assert not engine.planner.riders_wait
