"""What share an engine says as its steps begin, and what it learns of them at their ends."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from runtime.recorder import Recorder
from typing_extensions import override

from rowen.crds.ride.terms import LatencyBound, SpatialTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.spatial import SharePlanner
from rowen.runtime.vllm.spatial.steps import SharedSteps

DECODE, PROMPT = Load(2, 40), Load(1, 20, 8, 36)
BOUND = LatencyBound(percentile=99.0, seconds=1.0)


class Scripted(SharePlanner):
    """Gives a stated share, and writes down what it is taught."""

    def __init__(self) -> None:
        super().__init__(SpatialTerms(ttft=BOUND, tpot=BOUND), Predictor())
        self.says = 3
        self.asked: list[bool] = []
        self.alone: list[tuple[Load, float]] = []
        self.beside: list[tuple[Load, float, int]] = []
        self.gaps: list[tuple[Load, float, bool]] = []
        self.tpots: list[tuple[float, float]] = []

    @override
    def share(self, load: Load, occupied: bool) -> int:
        self.asked.append(occupied)
        return 0 if load.prefill_tokens else self.says

    @override
    def observe_alone(self, load: Load, seconds: float) -> None:
        self.alone.append((load, seconds))

    @override
    def observe_beside(self, load: Load, seconds: float, tenths: int) -> None:
        self.beside.append((load, seconds, tenths))

    @override
    def observe_gap(self, load: Load, seconds: float, beside: bool) -> None:
        self.gaps.append((load, seconds, beside))

    @override
    def observe_tpot(self, seconds: float, offline_seconds: float) -> None:
        self.tpots.append((seconds, offline_seconds))


class Device(Recorder):
    """Grants what the test says."""

    open = 0

    @override
    def granted(self) -> int:
        return self.open


@dataclass
class Engine:
    device: Device = field(default_factory=Device)
    planner: Scripted = field(default_factory=Scripted)
    steps: SharedSteps = field(init=False)

    def __post_init__(self) -> None:
        self.steps = SharedSteps(self.device, self.planner)

    def step(
        self, begin: float, end: float, load: Load = DECODE, *, begun: int = 0, ended: int = 0, **more: Any
    ) -> None:
        """With so much granted at its begin and its end."""
        self.device.open = begun
        self.steps.begin(1, load, begin)
        self.device.open = ended
        self.steps.end(1, end, **{"unfinished": True, **more})


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_the_share_is_said_in_every_step(engine: Engine) -> None:
    for load in (PROMPT, DECODE, DECODE, PROMPT, DECODE):
        engine.step(1.0, 2.0, load)
    assert engine.device.shares == [0, 3, 3, 0, 3]


def test_it_is_said_where_nobody_is_there_too(engine: Engine) -> None:
    engine.device.offline = 0
    engine.step(1.0, 2.0)
    engine.device.offline = 2
    engine.step(3.0, 4.0)
    assert engine.device.shares == [3, 3]
    assert engine.planner.asked == [False, True]


def test_a_step_beside_nobody_is_one_alone_whatever_is_granted(engine: Engine) -> None:
    engine.device.offline = 0
    engine.step(1.0, 1.5, begun=3, ended=10)
    assert engine.planner.alone == [(DECODE, 0.5)]
    assert engine.planner.beside == []


def test_so_is_one_behind_a_closed_gate(engine: Engine) -> None:
    engine.step(1.0, 1.5, PROMPT)
    assert engine.planner.alone == [(PROMPT, 0.5)]


def test_one_beside_offline_work_tells_of_what_that_may_use(engine: Engine) -> None:
    engine.step(1.0, 1.5, begun=3, ended=3)
    # What is granted counts, not what was said.
    engine.step(2.0, 2.25, begun=1, ended=1)
    assert engine.planner.beside == [(DECODE, 0.5, 3), (DECODE, 0.25, 1)]
    assert engine.planner.alone == []


@pytest.mark.parametrize(("begun", "ended"), [(0, 3), (3, 0), (3, 4), (10, 10)])
def test_any_other_one_tells_nothing(engine: Engine, begun: int, ended: int) -> None:
    engine.step(1.0, 1.5, begun=begun, ended=ended)
    assert engine.planner.alone + engine.planner.beside == []


def test_nor_does_one_in_which_offline_work_came_or_went(engine: Engine) -> None:
    engine.device.offline, engine.device.open = 0, 3
    engine.steps.begin(1, DECODE, 1.0)
    engine.device.offline = 1
    engine.steps.end(1, 2.0, unfinished=True)
    assert engine.planner.alone + engine.planner.beside == []


def test_the_share_counts_from_when_it_was_said(engine: Engine) -> None:
    class Obeying(Device):
        @override
        def share(self, tenths: int) -> None:
            self.open = tenths

    engine.device = Obeying()
    engine.steps = SharedSteps(engine.device, engine.planner)
    engine.steps.begin(1, DECODE, 1.0)
    engine.steps.end(1, 2.0, unfinished=True)
    assert engine.planner.beside == [(DECODE, 1.0, 3)]


def test_a_step_that_was_scheduled_early_begins_at_the_end_of_the_one_before(engine: Engine) -> None:
    engine.steps.begin(1, DECODE, 1.0)
    engine.steps.begin(2, DECODE, 1.5)
    engine.steps.end(1, 2.0, unfinished=True)
    engine.steps.end(2, 2.75, unfinished=True)
    engine.step(3.0, 3.5)
    assert [seconds for _, seconds in engine.planner.alone] == [1.0, 0.75, 0.5]


def test_nothing_is_given_while_a_prompt_that_was_scheduled_before_is_computed(engine: Engine) -> None:
    engine.steps.begin(1, PROMPT, 1.0)
    engine.steps.begin(2, DECODE, 1.5)
    engine.steps.end(1, 2.0, unfinished=True)
    engine.steps.begin(3, DECODE, 2.5)
    assert engine.device.shares == [0, 0, 3]


def test_gaps_are_from_token_to_token(engine: Engine) -> None:
    engine.step(1.0, 2.0, Load(0, 0, 8, 36))
    engine.step(2.5, 3.0, begun=3, ended=3)
    engine.step(3.25, 4.0, PROMPT)
    # Nobody waits for a second token.
    engine.step(4.5, 5.0, Load(0, 0, 8, 36))
    engine.step(5.0, 5.5, begun=0, ended=3)
    engine.step(5.5, 6.0, begun=3, ended=0)
    assert engine.planner.gaps == [
        (DECODE, 1.0, True), (PROMPT, 1.0, False), (DECODE, 0.5, True), (DECODE, 0.5, True),
    ]  # fmt: skip


def test_offline_work_has_no_part_in_a_gap_where_it_is_not_there(engine: Engine) -> None:
    engine.device.offline = 0
    engine.step(1.0, 2.0, begun=3, ended=3)
    engine.step(2.0, 3.0, begun=3, ended=3)
    assert engine.planner.gaps == [(DECODE, 1.0, False)]


def test_a_gap_ends_when_the_engine_has_nothing_to_do(engine: Engine) -> None:
    engine.step(1.0, 2.0, unfinished=False)
    engine.step(9.0, 9.5)
    # A step in which nothing was computed.
    engine.steps.end(7, 9.75, unfinished=True)
    engine.step(10.0, 10.5)
    engine.steps.end(7, 11.0, unfinished=False)
    engine.step(12.0, 12.5)
    assert engine.planner.gaps == [(DECODE, 1.0, False)]
    assert [seconds for _, seconds in engine.planner.alone] == [1.0, 0.5, 0.5, 0.5]


def test_each_request_is_followed_to_its_end(engine: Engine) -> None:
    steps, planner = engine.steps, engine.planner
    engine.step(0.0, 1.0, PROMPT)
    steps.follow([], [("a", 1)], 1.0)
    # Its next token is due nine tenths of the bound after the first.
    assert planner.token_pace.due_in == pytest.approx(0.9)
    engine.step(1.0, 1.75)
    planner.offline_seconds = 0.5
    steps.follow([], [("a", 2)], 1.75)
    assert planner.token_pace.due_in == pytest.approx(1.05)
    engine.step(1.75, 3.0)
    # A step that computes nothing, and who has ended with it.
    steps.follow(["a"], [], 4.0)
    assert planner.tpots == [(1.0, 0.25)]
    assert planner.token_pace.due_in == math.inf


def test_in_the_end_nothing_is_given(engine: Engine) -> None:
    engine.step(1.0, 2.0)
    engine.steps.close()
    assert engine.device.shares == [3, 0]
