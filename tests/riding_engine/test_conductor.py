"""What is asked of planner and learner around an engine's steps, and what of it the guests are told."""

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from riding_engine.guests import Guests

from rowen.runtime.coserve.learner import Linear, Phase, Upcoming
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import TOO_DEAR, TOO_LONG, Plan
from rowen.runtime.coserve.task import Adapter, Result, Task, TaskUnsuitable
from rowen.runtime.coserve.training.files import ModelFilesChanged
from rowen.runtime.vllm.riding.boarded import Boarded
from rowen.runtime.vllm.riding.conductor import Conductor
from rowen.runtime.vllm.riding.hooks import Ride
from rowen.runtime.vllm.riding.waker import Waker

TASK = Task(1, Adapter(1.0, {}), (), 1.0, True)
RESULT = Result(1, 0.5, 2, 1, {})


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Window:
    first_layer, tokens, whole_tokens, context = 1, 5, 4, 20

    def __init__(self) -> None:
        self.ended = ""

    def enter(self, layer: int, linear: Linear) -> Any: ...

    def leave(self, layer: int, linear: Linear, outputs: Any) -> None: ...

    def finish(self) -> None:
        self.ended = "finished"

    def abandon(self) -> None:
        self.ended = "abandoned"


class Learner:
    """Has windows while `waiting_tokens`, and after them parts of 0.01 s."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waiting_tokens = 0
        self.windows: list[Window] = []
        self.asked: list[int] = []
        """Tokens of windows."""
        self.parts: list[tuple[Phase, int, bool]] = []
        self.phases: list[Phase] = []
        self.tasks: dict[int, Task] = {}
        self.ended: list[tuple[int, Result | TaskUnsuitable]] = []
        self.coming_seconds = 0.0
        """That it takes to take a task in, or to let one go."""
        self.window_seconds = 0.0
        """That it takes to make a window."""
        self.whose = 3
        """Whose turn it is."""
        self.whose_part: int | None = None
        """Of a part; None: the same one's."""
        self.passed: list[int] = []

    def add(self, guest: int, task: Task) -> None:
        if not task.gradients:
            raise TaskUnsuitable("too large")
        self.clock.now += self.coming_seconds
        self.tasks[guest] = task

    def drop(self, guest: int) -> None:
        self.clock.now += self.coming_seconds
        del self.tasks[guest]

    def window(self, most_tokens: int) -> Window | None:
        if not self.waiting_tokens:
            return None
        self.clock.now += self.window_seconds
        self.asked.append(most_tokens)
        self.windows.append(Window())
        return self.windows[-1]

    def window_guest(self) -> int | None:
        return self.whose if self.waiting_tokens else None

    def pass_over(self, guest: int) -> None:
        self.passed.append(guest)

    def upcoming(self, forward: bool = True) -> Upcoming | None:
        phases = (phase for phase in self.phases if forward or phase is not Phase.FORWARD)
        return next((Upcoming(self.whose_part or self.whose, phase) for phase in phases), None)

    def part(self, most_tokens: int, forward: bool = True) -> Any:
        upcoming = self.upcoming(forward)
        if upcoming is None:
            return None
        phase = upcoming.phase
        self.phases.remove(phase)
        self.parts.append((phase, most_tokens, forward))

        def run() -> None:
            self.clock.now += 0.01

        # The last one of a phase ends the way.
        through = 0 if phase in self.phases else most_tokens
        return SimpleNamespace(
            phase=phase, tokens=most_tokens, context=10 * most_tokens, through_tokens=through, run=run
        )

    def finished(self) -> list[tuple[int, Result | TaskUnsuitable]]:
        ended, self.ended = self.ended, []
        return ended


class Planner:
    idle_part_seconds = 0.5

    def idle_seconds(self, least_seconds: float) -> float:
        return max(self.idle_part_seconds, least_seconds)

    riders_wait = holds = False
    rider_seconds = 0.0

    def __init__(self) -> None:
        self.token_pace = SimpleNamespace(due_in=math.inf, token_seconds=0.05)
        self.due: list[float] = []
        """When it was asked for a plan."""
        self.next = Plan(8, 0.0, "")
        self.asked: list[tuple[Load, int, bool]] = []
        self.seen: list[tuple[Load, float]] = []
        self.tpots: list[tuple[float, float]] = []
        self.parts: list[tuple[str, int, int, float]] = []
        self.guests: list[int | None] = []
        """Whose parts those were."""
        self.gone: list[int] = []
        self.room = 100
        """Tokens that fit, of a window that is there."""
        self.first_tokens: list[tuple[float, float]] = []
        self.predictor = SimpleNamespace(least_part_seconds=lambda *_: 0.004, seconds=lambda _: 0.012)

    def drop(self, guest: int) -> None:
        self.gone.append(guest)

    def plan(
        self,
        load: Load,
        waiting_tokens: int,
        has_parts: bool,
        least_part_seconds: float = 0.0,
        rider: int | None = None,
        part_rider: int | None = None,
    ) -> Plan:
        self.asked.append((load, waiting_tokens, has_parts))
        self.rider, self.part_rider = rider, part_rider
        self.due.append(round(self.token_pace.due_in, 6))
        self.least_part_seconds = least_part_seconds
        return self.next

    def fitting(self, load: Load) -> int:
        return min(self.room, load.ride_tokens)

    def observe(self, load: Load, seconds: float) -> float:
        self.seen.append((load, round(seconds, 6)))
        return seconds - self.predictor.seconds(load) if load.ride_tokens else 0.0

    def observe_tpot(self, seconds: float, rider_seconds: float) -> None:
        self.tpots.append((round(seconds, 6), round(rider_seconds, 6)))

    def observe_first_token(self, seconds: float, rider_seconds: float) -> None:
        self.first_tokens.append((round(seconds, 6), round(rider_seconds, 6)))

    def observe_part(self, phase: str, tokens: int, context: int, seconds: float, rider: int | None = None) -> None:
        self.parts.append((phase, tokens, context, round(seconds, 6)))
        self.guests.append(rider)
        self.rider_seconds += seconds

    def part_tokens(self, phase: str, seconds: float, rider: int | None = None) -> int:
        self.sized = rider
        return max(1, round(seconds * 1000))


class Hooks:
    """A step passes all layers of a window, but for what `ride` is told."""

    def __init__(self) -> None:
        self.window: Window | None = None
        self.ride: dict[str, Any] = {}
        self.removed = False

    def arm(self, window: Window) -> None:
        self.window = window

    def disarm(self) -> Ride | None:
        window, self.window = self.window, None
        if window is None:
            return None
        found: Any = SimpleNamespace(**{"window": window, "error": None, "is_through": True, **self.ride})
        return found

    def remove(self) -> None:
        self.removed = True


class Files:
    changed = closed = False

    def check(self, now: float) -> None:
        if self.changed:
            raise ModelFilesChanged("the model's file a.safetensors was changed")

    def close(self) -> None:
        self.closed = True


class Engine:
    def __init__(self) -> None:
        self.clock, self.guests, self.hooks, self.files = Clock(), Guests(), Hooks(), Files()
        self.learner, self.planner = Learner(self.clock), Planner()
        parts: Any = self.learner, self.guests, self.hooks, self.files
        planner: Any = self.planner
        self.conductor = Conductor(planner, Boarded(*parts), Waker(), self.clock)

    def step(
        self,
        seconds: float = 0.02,
        decoding: int = 1,
        end: Callable[[Conductor], None] = Conductor.finish,
        finished: tuple[str, ...] = (),
        tokens: int = 1,
    ) -> None:
        """`tokens`: that each of the requests has by now."""
        names = [f"request-{number}" for number in range(decoding)]
        cached = SimpleNamespace(
            req_ids=names, num_computed_tokens=[9] * decoding, num_output_tokens=[tokens] * decoding
        )
        output: Any = SimpleNamespace(
            total_num_scheduled_tokens=decoding,
            num_scheduled_tokens=dict.fromkeys(names, 1),
            scheduled_new_reqs=[],
            scheduled_cached_reqs=cached,
            finished_req_ids=finished,
        )
        self.conductor.begin(output)
        self.clock.now += seconds
        end(self.conductor)


@pytest.fixture
def engine() -> Engine:
    return Engine()


ALONE = Load(decode_rows=1, decode_context=10)
RIDDEN = Load(decode_rows=1, decode_context=10, ride_tokens=4, ride_context=20, rider=3)


def test_a_step_without_riders_is_watched(engine: Engine) -> None:
    engine.step()
    engine.clock.now += 0.001
    engine.step(0.03)
    assert engine.planner.asked == [(ALONE, 0, False)] * 2
    assert engine.planner.seen == [(ALONE, 0.02), (ALONE, 0.03)]
    # Of a request whose first token it did not see it knows nothing.
    assert engine.planner.due == [math.inf] * 2


def test_a_window_rides_in_a_step_and_is_done_after_it(engine: Engine) -> None:
    engine.learner.waiting_tokens = 7
    engine.step()
    assert engine.planner.asked == [(ALONE, 7, False)]
    assert engine.planner.seen == [(RIDDEN, 0.02)]
    assert [window.ended for window in engine.learner.windows] == ["finished"]


@pytest.mark.parametrize("end", [Conductor.fail, Conductor.finish])
def test_a_window_that_did_not_get_through_goes_again(engine: Engine, end: Callable[[Conductor], None]) -> None:
    engine.learner.waiting_tokens = 7
    engine.hooks.ride = {"is_through": False}
    engine.step(end=end)
    assert [window.ended for window in engine.learner.windows] == ["abandoned"]
    # What such a step took says nothing.
    assert engine.planner.seen == []
    engine.hooks.ride = {}
    engine.step()
    assert engine.learner.windows[-1].ended == "finished"
    assert engine.guests.ended is None


def test_steps_that_pass_no_layers_end_the_riding(engine: Engine) -> None:
    engine.learner.waiting_tokens = 7
    engine.hooks.ride = {"is_through": False}
    for _ in range(8):
        assert engine.guests.ended is None
        engine.step()
    assert engine.guests.ended == "riding failed in the engine: RuntimeError"


def test_a_step_that_computes_nothing_has_no_riders(engine: Engine) -> None:
    engine.learner.waiting_tokens = 7
    engine.step(decoding=0)
    assert (engine.planner.asked, engine.planner.seen, engine.learner.windows) == ([], [], [])


def test_tasks_come_in_before_a_step_and_go_with_their_guests(engine: Engine) -> None:
    first, second = engine.guests.arrive(TASK), engine.guests.arrive(TASK)
    refused = engine.guests.arrive(Task(1, Adapter(1.0, {}), (), 1.0, False))
    engine.step()
    assert engine.learner.tasks == {first: TASK, second: TASK}
    assert str(engine.guests.answers.pop(refused)) == "too large"
    engine.guests.depart(first)
    engine.learner.ended = [(second, RESULT)]
    engine.step()
    assert engine.learner.tasks == {second: TASK}
    assert engine.guests.answers == {second: RESULT}


def test_parts_run_after_a_step_for_as_long_as_was_planned(engine: Engine) -> None:
    engine.planner.next = Plan(0, 0.025, "")
    engine.learner.phases = [Phase.FORWARD, Phase.HEAD] + [Phase.BACKWARD] * 5
    engine.step()
    assert engine.planner.asked == [(ALONE, 0, True)]
    assert engine.planner.least_part_seconds == 0.004
    engine.conductor.between(lambda: True)
    # The third has 0.005 s left, which is enough for a small one.
    assert engine.learner.parts == [(Phase.HEAD, 25, False), (Phase.BACKWARD, 15, False), (Phase.BACKWARD, 5, False)]
    assert engine.planner.parts[0] == ("Head", 25, 250, 0.01)
    # Once after each step.
    engine.conductor.between(lambda: True)
    assert len(engine.learner.parts) == 3


@pytest.mark.parametrize(
    ("step_seconds", "parts"),
    # Of 0.025 s as much as is left; and nothing where that is less than the smallest takes.
    [(0.004, [25, 15, 5]), (0.02, [10]), (0.025, [5]), (0.027, []), (0.03, []), (0.05, [])],
)
def test_parts_have_no_time_that_the_step_took(engine: Engine, step_seconds: float, parts: list[int]) -> None:
    engine.planner.next = Plan(0, 0.025, "", 0.03)
    engine.learner.phases = [Phase.BACKWARD] * 5
    engine.step(step_seconds)
    engine.conductor.between(lambda: True)
    assert [tokens for _, tokens, _ in engine.learner.parts] == parts


def test_a_part_that_runs_all_the_same_does_after_a_long_step(engine: Engine) -> None:
    engine.planner.next = Plan(0, 0.002, "")
    engine.learner.phases = [Phase.BACKWARD] * 2
    engine.step(5.0)
    engine.conductor.between(lambda: True)
    assert len(engine.learner.parts) == 1


def test_it_is_planned_for_the_guest_whose_turn_it_is(engine: Engine) -> None:
    asked: list[tuple[object, ...]] = []
    engine.planner.predictor.least_part_seconds = lambda *whose: (asked.append(whose), 0.004)[1]
    engine.planner.next = Plan(0, 0.015, "")
    engine.learner.whose, engine.learner.waiting_tokens, engine.learner.phases = 7, 9, [Phase.BACKWARD]
    engine.step()
    assert engine.planner.rider == 7
    engine.conductor.between(lambda: True)
    engine.learner.whose, engine.learner.phases = 8, [Phase.FORWARD]
    engine.conductor.idle(lambda: True)
    assert asked == [(Phase.BACKWARD, 7), (Phase.FORWARD, 8)]
    assert (engine.planner.guests, engine.planner.sized) == ([7, 8], 8)


@pytest.mark.parametrize(
    ("plan", "passed"),
    [
        (TOO_DEAR, [7]),
        (TOO_LONG, [8]),
        (Plan(0, 0.0, "the step alone takes all the time there is"), []),
        (Plan(8, 0.0, "a window rides"), []),
        (Plan(0, 0.015, "parts run after the step"), []),
    ],
)
def test_whose_window_or_part_has_no_room_is_passed_over(engine: Engine, plan: Plan, passed: list[int]) -> None:
    engine.planner.next = plan
    engine.learner.waiting_tokens, engine.learner.phases = 9, [Phase.BACKWARD]
    engine.learner.whose, engine.learner.whose_part = 7, 8
    engine.step()
    assert (engine.planner.rider, engine.planner.part_rider) == (7, 8)
    assert engine.learner.passed == passed


def test_what_is_known_of_a_guest_goes_with_it(engine: Engine) -> None:
    first, second = engine.guests.arrive(TASK), engine.guests.arrive(TASK)
    engine.guests.depart(second)
    engine.step()
    assert (engine.planner.gone, list(engine.learner.tasks)) == ([second], [first])


def test_to_make_a_window_is_part_of_what_it_takes(engine: Engine) -> None:
    engine.conductor._first_tokens.arrived("request-0", engine.clock.now, 10)
    engine.learner.waiting_tokens, engine.learner.window_seconds = 7, 0.03
    engine.step()
    assert engine.planner.seen == [(RIDDEN, 0.05)]
    # But for the 0.012 s that the step takes alone it is riders' doing.
    assert engine.planner.first_tokens == [(0.05, 0.038)]


@pytest.mark.parametrize(
    ("planned", "room", "asked", "ended", "ridden"),
    [
        (8, 4, [8], ["finished"], True),
        # Two of the four that its tokens come to: of the tokens that are in it half as many.
        (8, 2, [8, 2], ["abandoned", "finished"], True),
        (8, 0, [8], ["abandoned"], False),
        # So few ride whatever they attend to.
        (4, 0, [4], ["finished"], True),
    ],
)
def test_a_window_that_takes_longer_than_was_thought_is_smaller(
    engine: Engine, planned: int, room: int, asked: list[int], ended: list[str], ridden: bool
) -> None:
    engine.planner.next, engine.planner.room, engine.learner.waiting_tokens = Plan(planned, 0.0, ""), room, 7
    engine.step()
    assert engine.learner.asked == asked
    assert [window.ended for window in engine.learner.windows] == ended
    assert engine.planner.seen == [(RIDDEN if ridden else ALONE, 0.02)]


def test_riders_that_come_during_a_step_do_not_knock(engine: Engine) -> None:
    knocks: list[int] = []
    engine.conductor.waker.reaches(lambda: knocks.append(1))
    engine.step(end=lambda conductor: (conductor.waker.wake(), conductor.finish())[1])
    assert knocks == []


def test_by_how_much_riders_made_steps_longer_is_told(engine: Engine) -> None:
    engine.learner.waiting_tokens = 7
    engine.step()
    engine.learner.waiting_tokens = 0
    engine.step()
    engine.learner.phases = [Phase.BACKWARD]
    engine.conductor.idle(lambda: True)
    sums = engine.guests.sums
    assert (sums.steps, sums.seconds) == (2, pytest.approx(0.04))
    # Parts are not in it.
    assert sums.added_seconds == pytest.approx(0.008)
    assert sums.riding_seconds > 0


def test_parts_end_when_a_request_comes(engine: Engine) -> None:
    engine.planner.next = Plan(0, 0.025, "")
    engine.learner.phases = [Phase.BACKWARD] * 5
    engine.step()
    engine.conductor.between(lambda: not engine.learner.parts)
    assert len(engine.learner.parts) == 1


def test_an_idle_engine_runs_all_parts_until_somebody_comes(engine: Engine) -> None:
    engine.learner.phases = [Phase.FORWARD, Phase.HEAD, Phase.BACKWARD, Phase.BACKWARD, Phase.FORWARD]
    engine.conductor.idle(lambda: len(engine.learner.parts) < 3)
    assert engine.learner.parts == [(Phase.FORWARD, 500, True), (Phase.HEAD, 500, True), (Phase.BACKWARD, 500, True)]
    engine.conductor.idle(lambda: True)
    assert len(engine.learner.parts) == 5
    sums = engine.guests.sums
    # A way forward or back counts where it ends.
    assert (sums.solo_tokens, sums.backward_tokens, sums.steps) == (500, 500, 0)
    assert sums.riding_seconds == pytest.approx(0.05)


def test_a_part_of_an_idle_engine_is_larger_where_the_smallest_takes_long(engine: Engine) -> None:
    engine.planner.predictor.least_part_seconds = lambda *_: 0.7
    engine.learner.phases = [Phase.FORWARD]
    engine.conductor.idle(lambda: True)
    assert engine.learner.parts == [(Phase.FORWARD, 700, True)]


def test_an_idle_engine_answers_tasks_that_have_no_parts(engine: Engine) -> None:
    """Nobody may come for an hour whose step would have them answered."""
    guest = engine.guests.arrive(TASK)
    engine.learner.ended = [(guest, RESULT)]
    engine.conductor.idle(lambda: True)
    assert engine.guests.answers == {guest: RESULT}


def test_when_the_next_token_is_due_is_known_before_each_step(engine: Engine) -> None:
    engine.step(tokens=0)
    engine.clock.now += 0.001
    engine.step(0.03)
    # Before it had one it was none of those that wait for the next.
    assert engine.planner.due == [math.inf, 0.049]
    # The rows of the next step are planned before it begins.
    assert engine.planner.token_pace.due_in == pytest.approx(0.069)


def test_what_parts_take_between_two_tokens_is_of_the_gap(engine: Engine) -> None:
    engine.step(tokens=0)
    engine.planner.next = Plan(0, 0.015, "")
    engine.learner.phases = [Phase.BACKWARD]
    engine.step(0.03)
    engine.conductor.between(lambda: True)
    assert engine.planner.token_pace.due_in == pytest.approx(0.06)
    engine.step(0.03, tokens=2)
    engine.step(decoding=0, finished=("request-0",))
    assert engine.planner.tpots == [(0.035, 0.005)]


def test_who_has_ended_holds_nobody_back(engine: Engine) -> None:
    engine.step(tokens=0)
    engine.step(0.2)
    assert engine.planner.token_pace.due_in == pytest.approx(-0.1)
    engine.conductor.idle(lambda: True)
    engine.clock.now += 9.0
    # It had its last token before all that.
    engine.step(decoding=0, finished=("request-0",))
    assert engine.planner.token_pace.due_in == math.inf
    assert engine.planner.tpots == [(0.2, 0.0)]


def test_what_requests_wait_for_their_first_token_is_told_with_what_of_it_was_riders(engine: Engine) -> None:
    engine.learner.phases = [Phase.BACKWARD] * 2
    engine.learner.waiting_tokens = 7
    engine.conductor.idle(lambda: len(engine.learner.parts) < 1)
    for name, prompt_tokens in (("request-0", 10), ("request-1", 11), ("request-2", 1), ("cmpl-rowen-row-0", 10)):
        engine.conductor.arrived(name, time.time(), prompt_tokens)
    # It came in the middle of the part, which took 0.01 s.
    engine.conductor._first_tokens.arrived("request-0", engine.clock.now - 0.004, 10)
    engine.step(0.02, decoding=2, finished=("request-2",))
    # The rest of the part, and what the window took of the step beyond the 0.012 s that it takes alone.
    assert engine.planner.first_tokens == [(0.024, 0.012)]
    engine.step(0.02, decoding=2)
    # The other one's prompt is not through.
    assert len(engine.planner.first_tokens) == 1


def test_what_the_seat_computes_in_a_step_is_riders_doing(engine: Engine) -> None:
    engine.conductor._first_tokens.arrived("request-0", engine.clock.now, 10)

    def end(conductor: Conductor) -> None:
        engine.guests.worked_seconds += 0.015
        conductor.finish()

    engine.step(0.02, end=end)
    assert engine.planner.first_tokens[-1] == (0.02, 0.015)
    assert engine.planner.rider_seconds == pytest.approx(0.015)
    # Of what it computed before the step nothing, nor more than the step took.
    engine.guests.worked_seconds += 5.0
    engine.step(0.02)
    engine.step(0.01, end=end)
    assert engine.planner.rider_seconds == pytest.approx(0.025)
    assert engine.conductor._tally.sums().added_seconds == pytest.approx(0.025)
    # What it computed while a task was taken in is in the time that this took.
    engine.learner.coming_seconds = 0.05
    add = engine.learner.add

    def added(guest: int, task: Task) -> None:
        engine.guests.worked_seconds += 0.03
        add(guest, task)

    engine.learner.add = added  # type: ignore[method-assign]
    engine.guests.arrive(TASK)
    engine.step(0.02)
    assert engine.planner.rider_seconds == pytest.approx(0.075)


def test_what_it_takes_to_take_a_task_in_is_riders_doing(engine: Engine) -> None:
    engine.learner.coming_seconds = 0.05
    engine.conductor._first_tokens.arrived("request-0", engine.clock.now, 10)
    guest = engine.guests.arrive(TASK)
    engine.step(0.02)
    assert engine.planner.first_tokens[-1] == (0.07, 0.05)
    assert engine.planner.rider_seconds == pytest.approx(0.05)
    # What is not noticed is not noted.
    engine.learner.coming_seconds = 0.0004
    engine.guests.depart(guest)
    engine.step(0.02)
    assert engine.planner.rider_seconds == pytest.approx(0.05)
    # Nor may a request that comes then to an idle engine be told another thing.
    engine.learner.coming_seconds = 0.03
    engine.guests.arrive(TASK)
    engine.conductor.idle(lambda: not engine.learner.tasks)
    assert engine.planner.rider_seconds == pytest.approx(0.08)
    assert engine.conductor._tally.sums().riding_seconds == pytest.approx(0.08)


def test_the_agent_hears_what_steps_were_made_of_once_a_second(engine: Engine) -> None:
    engine.learner.waiting_tokens = 7
    for _ in range(60):
        engine.step()
    sums = engine.guests.sums
    assert sums.steps == sums.riding_steps == sums.decode_rows == sums.forward_tokens // 5
    assert 40 < sums.steps < 60


@pytest.mark.parametrize("broken", ["plan", "window", "upcoming", "finished", "ride", "part"])
def test_what_fails_ends_the_riding_and_nothing_else(engine: Engine, broken: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    engine.learner.waiting_tokens = 7
    engine.planner.next = Plan(3, 0.1, "")
    engine.learner.phases = [Phase.BACKWARD]
    if broken == "ride":
        engine.hooks.ride = {"error": ZeroDivisionError(), "is_through": False}
    else:
        setattr(engine.planner if broken == "plan" else engine.learner, broken, fails)
    engine.step()
    engine.conductor.between(lambda: True)
    assert engine.guests.ended == "riding failed in the engine: ZeroDivisionError"
    assert engine.hooks.removed
    windows = len(engine.learner.windows)
    engine.guests.arrive(TASK)
    for _ in range(3):
        engine.step()
        engine.conductor.between(lambda: True)
        engine.conductor.idle(lambda: True)
    assert (len(engine.learner.windows), engine.learner.tasks) == (windows, {})
    # Batch rows are planned with what steps take, as long as that can be said.
    assert bool(engine.planner.seen) == (broken != "plan")


@pytest.mark.parametrize("when", ["window", "between", "idle"])
def test_nothing_is_computed_from_files_that_have_changed(engine: Engine, when: str) -> None:
    if when == "window":
        engine.learner.waiting_tokens = 100
    else:
        engine.learner.phases = [Phase.BACKWARD]
    engine.planner.next = Plan(8, 0.1, "")
    engine.files.changed = True
    if when != "idle":
        engine.step()
    engine.conductor.between(lambda: True)
    engine.conductor.idle(lambda: True)
    assert (engine.learner.windows, engine.learner.phases, engine.planner.parts) == (
        [], [] if when == "window" else [Phase.BACKWARD], []
    )  # fmt: skip
    assert engine.guests.ended == "the model's file a.safetensors was changed"
    assert (engine.hooks.removed, engine.files.closed) == (True, True)
    engine.step()
    assert engine.planner.seen[-1] == (ALONE, 0.02)


def test_a_request_that_comes_in_no_known_way_does_not_disturb_the_engine(engine: Engine) -> None:
    never: Any = None
    engine.conductor.arrived("request-0", never, 10)
    assert engine.guests.ended == "riding failed in the engine: TypeError"


def test_requests_are_not_kept_once_nobody_watches(engine: Engine) -> None:
    engine.conductor.close()
    engine.conductor.arrived("request-0", time.time(), 10)
    assert not engine.conductor._first_tokens._waiting


def test_rows_are_not_held_by_what_was_due_when_nobody_watches_any_more(engine: Engine) -> None:
    engine.step(tokens=0)
    engine.step(0.2)
    assert engine.planner.token_pace.due_in < 0
    engine.conductor.close()
    assert engine.planner.token_pace.due_in == math.inf


def test_what_fails_twice_holds_no_rows_either(engine: Engine) -> None:
    engine.step(tokens=0)
    engine.step(0.2)
    never: Any = None
    engine.conductor.arrived("request-1", never, 10)
    assert engine.planner.token_pace.due_in < 0
    engine.conductor.arrived("request-1", never, 10)
    assert engine.planner.token_pace.due_in == math.inf


def test_an_engine_that_ends_lets_its_guests_go(engine: Engine) -> None:
    engine.conductor.close()
    assert engine.guests.closed
    engine.step()
    engine.conductor.idle(lambda: True)
    assert engine.planner.asked == []


def test_an_engine_that_nothing_can_ride_in_is_watched(engine: Engine) -> None:
    planner: Any = engine.planner
    engine.conductor = Conductor(planner, None, Waker(), engine.clock)
    engine.step()
    engine.conductor.between(lambda: True)
    engine.conductor.idle(lambda: True)
    assert engine.planner.seen == [(ALONE, 0.02)]
    engine.conductor.close()
