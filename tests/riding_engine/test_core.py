"""vLLM's own loop with riders, while it waits for requests and after its steps. The engine itself is made up."""

import queue
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.engine.core import EngineCore, EngineCoreProc, EngineShutdownState

from rowen.runtime.vllm.riding.core import watch_cores
from rowen.runtime.vllm.riding.waker import Waker

PATIENCE_SECONDS = 20.0


class Conductor:
    """Has work that takes no time."""

    def __init__(self) -> None:
        self.waker = Waker()
        self.work: list[int] = []
        self.done: list[int] = []
        self.idles = 0
        self.on_work: Callable[[], None] = lambda: None
        self.may_go_on: list[bool] = []
        self.requests: list[Any] = []

    def idle(self, may_go_on: Callable[[], bool]) -> None:
        while self.work and may_go_on():
            self.done.append(self.work.pop(0))
            self.on_work()
        self.idles += 1

    def arrived(self, *request: Any) -> None:
        self.requests.append(request)

    def between(self, may_go_on: Callable[[], bool]) -> None:
        self.may_go_on.append(may_go_on())


class Scheduler:
    def __init__(self) -> None:
        self.pause_state = PauseState.UNPAUSED
        self.requests: list[Any] = []

    def has_requests(self) -> bool:
        return bool(self.requests)

    def add_request(self, request: Any) -> None:
        self.requests.append(request)


@pytest.fixture
def conductor() -> Conductor:
    return Conductor()


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch, conductor: Conductor) -> Any:
    # They are as they were afterwards.
    monkeypatch.setattr(EngineCore, "post_step", EngineCore.post_step)
    monkeypatch.setattr(EngineCore, "add_request", EngineCore.add_request)
    monkeypatch.setattr(EngineCoreProc, "_notify_idle_state_callbacks", EngineCoreProc._notify_idle_state_callbacks)
    watch_cores()
    watch_cores()
    made: Any = object.__new__(EngineCoreProc)
    made.input_queue, made.aborts_queue = queue.Queue(), queue.Queue()
    made.scheduler, made.batch_queue, made.engines_running = Scheduler(), None, False
    made.shutdown_state, made.process_input_queue_block = EngineShutdownState.RUNNING, True
    made._idle_state_callbacks, made.check_for_draft_tokens = [], False
    made.model_executor = SimpleNamespace(
        driver_worker=SimpleNamespace(worker=SimpleNamespace(rowen_conductor=conductor))
    )
    handle = made._handle_client_request

    def handled(kind: EngineCoreRequestType, request: Any) -> None:
        if kind == EngineCoreRequestType.ADD:
            made.scheduler.requests.append(request)
        else:
            handle(kind, request)

    made._handle_client_request = handled
    return made


def waiting(core: Any) -> threading.Thread:
    """vLLM's loop, where it waits for a request."""
    thread = threading.Thread(target=core._process_input_queue, daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def request(core: Any) -> None:
    core.input_queue.put((EngineCoreRequestType.ADD, "request"))


def test_an_engine_that_waits_works_for_riders_and_wakes_for_them(core: Any, conductor: Conductor) -> None:
    conductor.work = [1, 2]
    conductor.waker.wake()
    thread = waiting(core)
    until(lambda: conductor.idles == 1)
    assert conductor.done == [1, 2]
    for number in (3, 4):
        conductor.work = [number]
        conductor.waker.wake()
        until(lambda: not conductor.work)
    until(lambda: conductor.idles == 3)
    # It waits, and does not turn round and round.
    time.sleep(0.05)
    assert conductor.idles == 3
    request(core)
    thread.join(PATIENCE_SECONDS)
    assert core.scheduler.requests == ["request"]
    assert not thread.is_alive()


def test_riders_that_come_wake_the_engine_once_and_only_while_it_waits() -> None:
    waker, woken = Waker(), []
    waker.reaches(lambda: woken.append(1))
    waker.wake()
    waker.wake()
    assert len(woken) == 1
    waker.reaches(lambda: woken.append(1))
    waker.rest()
    waker.wake()
    assert len(woken) == 1


def test_a_request_that_comes_meanwhile_is_taken_after_the_part(core: Any, conductor: Conductor) -> None:
    conductor.work = list(range(100))
    conductor.on_work = lambda: request(core) if len(conductor.done) == 3 else None
    thread = waiting(core)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert conductor.done == [0, 1, 2]


def test_an_engine_that_is_to_end_does(core: Any, conductor: Conductor) -> None:
    conductor.work = list(range(100))

    def end() -> None:
        core.shutdown_state = EngineShutdownState.REQUESTED
        core.input_queue.put((EngineCoreRequestType.WAKEUP, None))

    conductor.on_work = end
    thread = waiting(core)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert conductor.done == [0]


def test_a_paused_engine_stands_still(core: Any, conductor: Conductor) -> None:
    core.scheduler.pause_state = PauseState.PAUSED_ALL
    conductor.work = [1]
    thread = waiting(core)
    request(core)
    thread.join(PATIENCE_SECONDS)
    # It is told that the engine is idle: what a request waits for the resumption is no gap between two tokens.
    assert (conductor.idles, conductor.done) == (1, [])


def test_after_a_step_parts_run_unless_somebody_knocks(core: Any, conductor: Conductor) -> None:
    core.post_step(model_executed=True)
    request(core)
    core.post_step(model_executed=True)
    del core.input_queue
    core.post_step(model_executed=True)
    assert conductor.may_go_on == [True, False, True]
    core.model_executor = SimpleNamespace()
    core.post_step(model_executed=True)
    assert len(conductor.may_go_on) == 3


def test_who_comes_is_told_with_the_time(core: Any, conductor: Conductor) -> None:
    one = SimpleNamespace(
        request_id="one", arrival_time=12.5, num_prompt_tokens=7, pooling_params=None, kv_transfer_params=None,
        ec_transfer_params=None, abort_immediately=False,
    )  # fmt: skip
    core.add_request(one)
    assert core.scheduler.requests == [one]
    assert conductor.requests == [("one", 12.5, 7)]
