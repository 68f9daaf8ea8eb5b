"""Engines and agents come and go, and a job finds the next one, or ends for another attempt."""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from riding_tuner.engine import Engine, host_of
from riding_tuner.matchmaker import Matchmaker
from riding_tuner.plain_learner import PlainLearner
from runtime.tuning_runs import spec

from rowen.crds.job.worker import ExitCode
from rowen.runtime.coserve import ride_link as ride_link_module
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.coserve.task import IGNORED, Result, Sequence, Task, TaskUnsuitable
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.adapter import add_adapter
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.riding import ride as ride_module
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter, load_stand_in

SEQUENCES = (Sequence(torch.tensor([5, 6, 7]), torch.tensor([6, 7, IGNORED])),)


class Instant(PlainLearner):
    """Knows the answer without looking."""

    def __init__(self, model: Path) -> None:
        super().__init__(model)
        self.works = True
        self.weights: list[float] = []

    def part(self, most_tokens: int):  # type: ignore[no-untyped-def]
        return super().part(most_tokens) if self.works else None

    def result(self, task: Task) -> Result:
        self.weights.append(sum(float(pair.b.sum()) for pair in task.adapter.pairs.values()))
        gradients = dict(task.adapter.pairs) if task.gradients else {}
        return Result(task.number, task.number, 2, 1, gradients)


@pytest.fixture
def adapter(tiny_model: Path) -> RidingAdapter:
    return RidingAdapter(add_adapter(load_stand_in(tiny_model), spec(tiny_model, tiny_model, tiny_model)))


@pytest.fixture
def learner(tiny_model: Path) -> Instant:
    return Instant(tiny_model)


@pytest.fixture
def ride(tiny_model: Path, adapter: RidingAdapter, sockets: Path) -> Iterator[Ride]:
    ride = Ride(RideLink(str(sockets / "job")), model_digest(tiny_model), "Float32", adapter)
    yield ride
    ride.close()


@pytest.fixture
def engine(tiny_model: Path, learner: Instant, sockets: Path) -> Callable[[], Engine]:
    def start() -> Engine:
        # The last one's guest.
        learner.drop(0)
        return Engine(str(sockets / "engine"), host_of(tiny_model), learner)

    return start


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ride_module, "_LONGEST_DELAY_SECONDS", 0.1)


Start = Callable[[], Engine]


def test_gradients_are_those_that_the_engine_made(
    agent: Matchmaker, engine: Start, ride: Ride, adapter: RidingAdapter
) -> None:
    with engine():
        result = ride.gradients(SEQUENCES, 0.5)
    assert (result.loss_sum, result.learned_tokens, result.correct_tokens) == (1.0, 2, 1)
    for place, pair in adapter.pairs.items():
        assert torch.equal(result.gradients[place].a, pair.a)
        assert torch.equal(result.gradients[place].b, pair.b)


def test_weights_are_as_they_are_at_present(
    agent: Matchmaker, engine: Start, ride: Ride, adapter: RidingAdapter, learner: Instant
) -> None:
    with engine():
        ride.losses(SEQUENCES, adapted=True)
        with torch.no_grad():
            adapter.weights[1].fill_(1.0)
        ride.losses(SEQUENCES, adapted=True)
        ride.losses(SEQUENCES, adapted=False)
        ride.losses(SEQUENCES, adapted=True)
    ones = adapter.weights[1].numel()
    assert learner.weights == [0.0, ones, 0.0, ones]


def test_an_engine_that_comes_late_is_waited_for(agent: Matchmaker, engine: Start, ride: Ride) -> None:
    started: list[Engine] = []
    later = threading.Timer(0.5, lambda: started.append(engine()))
    later.start()
    assert ride.losses(SEQUENCES, adapted=True).loss_sum == 1
    later.join()
    started[0].close()


def test_the_next_engine_gets_the_task_of_one_that_ended(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant
) -> None:
    first = engine()
    ride.gradients(SEQUENCES, 1.0)
    learner.works = False
    seconds: list[Engine] = []

    def restart() -> None:
        while first.tasks < 2:
            time.sleep(0.005)
        first.close()
        learner.works = True
        seconds.append(engine())

    other = threading.Thread(target=restart)
    other.start()
    result = ride.gradients(SEQUENCES, 1.0)
    other.join()
    seconds[0].close()
    assert result.number == 2
    assert all(float(pair.a.abs().sum()) > 0 for pair in result.gradients.values())


def test_it_rides_on_without_the_agent_and_tells_the_next(sockets: Path, engine: Start, ride: Ride) -> None:
    link = ride._link
    with engine():
        with Matchmaker(sockets):
            ride.losses(SEQUENCES, adapted=True)
        ride.losses(SEQUENCES, adapted=True)
        with Matchmaker(sockets) as agent:
            ride.losses(SEQUENCES, adapted=True)
            completed = count(1)
            while not agent.progress:
                link.progress(next(completed), 1000, 7)
                time.sleep(0.01)
    assert agent.progress[0].tokens == 7
    assert [hello.pair for hello in agent.hellos] == [False]


def test_without_an_engine_it_ends_for_another_attempt(
    agent: Matchmaker, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    with pytest.raises(WorkerError, match="no engine") as lost:
        ride.losses(SEQUENCES, adapted=True)
    assert (lost.value.reason, lost.value.code) == ("RideLost", ExitCode.RETRY)


def test_without_an_agent_too(ride: Ride, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    with pytest.raises(WorkerError, match="agent") as lost:
        ride.losses(SEQUENCES, adapted=True)
    assert lost.value.reason == "RideLost"


def test_an_engine_of_another_model_refuses(agent: Matchmaker, engine: Start, adapter: RidingAdapter) -> None:
    with engine():
        ride = Ride(RideLink(agent.job_path), "0" * 64, "Float32", adapter)
        with pytest.raises(WorkerError, match="another model") as refused:
            wait_for_engine(ride)
        ride.close()
    assert (refused.value.reason, refused.value.code) == ("RideRefused", ExitCode.RETRY)


def wait_for_engine(ride: Ride) -> None:
    ride.losses(SEQUENCES, adapted=True)


def test_a_task_that_engines_cannot_do_is_refused(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(guest: int, task: Task) -> None:
        raise TaskUnsuitable("it is too long")

    monkeypatch.setattr(learner, "add", refuse)
    with engine(), pytest.raises(WorkerError, match="it is too long") as refused:
        ride.gradients(SEQUENCES, 1.0)
    assert refused.value.reason == "RideRefused"


def test_engines_are_not_lost_over_one_task_again_and_again(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant
) -> None:
    learner.works = False
    asked: list[int] = []

    def restart() -> None:
        for _ in range(3):
            with engine() as ending:
                while not ending.tasks:
                    time.sleep(0.005)
                asked.append(ending.tasks)

    other = threading.Thread(target=restart)
    other.start()
    with pytest.raises(WorkerError, match="3 engines were lost") as refused:
        ride.gradients(SEQUENCES, 1.0)
    other.join()
    assert asked == [1, 1, 1]
    assert refused.value.reason == "RideRefused"


def test_an_engine_that_has_better_things_to_do_for_too_long_is_no_refusal(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_module, "_RESULT_SECONDS", 0.1)
    learner.works = False
    with engine() as busy:
        with pytest.raises(WorkerError, match="has not answered") as lost:
            ride.gradients(SEQUENCES, 1.0)
        # It may have been on its way to the engine's thread until now.
        while not busy.tasks:
            time.sleep(0.005)
    assert busy.tasks == 1
    assert lost.value.reason == "RideLost"


def test_memory_that_the_job_does_not_get_is_no_engine_that_was_lost(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ride_module, "written", full)
    with engine() as idle, pytest.raises(WorkerError, match="No space left") as failed:
        ride.gradients(SEQUENCES, 1.0)
    assert idle.tasks == 0
    assert (failed.value.reason, failed.value.code) == ("Failed", ExitCode.RETRY)


def test_each_engine_that_is_lost_is_looked_for_as_long(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(ride_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    learner.works = False
    seconds: list[Engine] = []

    def restart() -> None:
        while not agent.hellos:
            time.sleep(0.005)
        now[0] += ride_module._LOST_SECONDS - 1
        with engine() as first:
            while not first.tasks:
                time.sleep(0.005)
            now[0] += ride_module._LOST_SECONDS + 1
        learner.works = True
        seconds.append(engine())

    other = threading.Thread(target=restart)
    other.start()
    assert ride.losses(SEQUENCES, adapted=True).loss_sum == 1
    other.join()
    seconds[0].close()


def test_the_next_agent_knows_of_it_with_its_next_question(
    sockets: Path, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_link_module, "_LOOK_SECONDS", 0.0)
    with engine():
        with Matchmaker(sockets):
            ride.losses(SEQUENCES, adapted=True)
        with Matchmaker(sockets) as agent:
            while not agent.hellos:
                ride.losses(SEQUENCES, adapted=True)
            assert not agent.hellos[0].pair


def test_progress_is_told_once_a_second(agent: Matchmaker) -> None:
    link = RideLink(agent.job_path)
    for step in range(50):
        link.progress(step, 100, step)
    link.progress(100, 100, 100)
    link.close()
    while not agent.progress or agent.progress[-1].completed < 100:
        time.sleep(0.005)
    assert agent.progress[0].completed == 0
    assert len(agent.progress) <= 5
