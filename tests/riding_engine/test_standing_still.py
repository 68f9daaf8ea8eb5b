"""What rides stands still while the lease of the engine's device has run out, and its requests notice nothing."""

import pytest
from riding_engine.guests import Guests
from riding_engine.leases import device
from riding_engine.test_conductor import ALONE, RESULT, RIDDEN, TASK, Engine
from runtime.recorder import Recorder

from rowen.runtime.coserve.learner import Phase
from rowen.runtime.coserve.planning.planner import Plan
from rowen.runtime.vllm.riding.conductor import Conductor

__all__ = ["device"]


@pytest.fixture
def engine(device: Recorder) -> Engine:
    return Engine()


def test_no_window_rides_without_a_lease(engine: Engine, device: Recorder) -> None:
    engine.learner.waiting_tokens = 7
    device.lease = False
    engine.step()
    assert engine.learner.windows == []
    # Riders are none in what is planned, and the step is watched.
    assert (engine.planner.asked, engine.planner.seen) == ([(ALONE, 0, False)], [(ALONE, 0.02)])
    device.lease = True
    engine.step()
    assert [window.ended for window in engine.learner.windows] == ["finished"]
    assert engine.planner.seen[1:] == [(RIDDEN, 0.02)]


def test_a_window_that_is_on_its_way_gets_through(engine: Engine, device: Recorder) -> None:
    def end(conductor: Conductor) -> None:
        device.lease = False
        conductor.finish()

    engine.learner.waiting_tokens = 7
    engine.step(end=end)
    assert [window.ended for window in engine.learner.windows] == ["finished"]


def test_no_part_begins_after_a_step_without_a_lease(engine: Engine, device: Recorder) -> None:
    engine.planner.next = Plan(0, 0.1, "")
    engine.planner.riders_wait = True
    engine.learner.phases = [Phase.BACKWARD] * 5
    engine.step()

    def goes_on() -> bool:
        # It runs out during the second.
        device.lease = not engine.learner.parts
        return True

    engine.conductor.between(goes_on)
    assert len(engine.learner.parts) == 2
    # No prompt waits for those that stand still.
    assert not engine.planner.riders_wait


def test_an_idle_engine_stands_still_and_goes_on(engine: Engine, device: Recorder) -> None:
    engine.planner.riders_wait = True
    engine.learner.phases = [Phase.FORWARD, Phase.BACKWARD]
    guest = engine.guests.arrive(TASK)
    device.lease = False
    engine.conductor.idle(lambda: True)
    assert (engine.learner.parts, engine.learner.tasks) == ([], {})
    assert not engine.planner.riders_wait
    device.lease = True
    engine.conductor.idle(lambda: True)
    assert len(engine.learner.parts) == 2
    assert engine.learner.tasks == {guest: TASK}


@pytest.mark.parametrize("knocks", [False, True])
def test_a_prompt_that_was_held_back_waits_for_nobody_then(engine: Engine, device: Recorder, knocks: bool) -> None:
    engine.planner.holds = engine.planner.riders_wait = True
    engine.learner.phases = [Phase.FORWARD]
    device.lease = False
    engine.step(decoding=0)
    engine.conductor.between(lambda: not knocks)
    assert engine.learner.parts == []
    assert not engine.planner.riders_wait


def test_an_answer_that_is_there_is_given(engine: Engine, device: Recorder) -> None:
    guest = engine.guests.arrive(TASK)
    engine.step()
    engine.learner.ended = [(guest, RESULT)]
    device.lease = False
    engine.step()
    assert engine.guests.answers == {guest: RESULT}


def test_the_agent_hears_of_the_steps_all_the_same(engine: Engine, device: Recorder) -> None:
    device.lease = False
    for _ in range(60):
        engine.step()
    guests: Guests = engine.guests
    assert guests.sums.steps > 40
