"""Engines and agents come and go, and a job finds the next one."""

import errno
import socket
import threading
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from riding_tuner.engine import Engine, Start
from riding_tuner.instant import SEQUENCES, Instant
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.job.worker import ExitCode
from rowen.runtime.coserve import ride_link as ride_link_module
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.coserve.task import Task, TaskUnsuitable
from rowen.runtime.coserve.wire.messages import ResultHeader, Welcome, Working
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.riding import ride as ride_module
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter


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


def test_the_next_agent_knows_of_it_while_it_waits_for_an_answer(
    sockets: Path, engine: Start, ride: Ride, learner: Instant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_link_module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(ride_link_module, "_LONGEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(ride_module, "STAY_SECONDS", 0.005)
    with engine() as busy:
        with Matchmaker(sockets):
            ride.losses(SEQUENCES, adapted=True)
        learner.works = False
        found: list[int] = []
        waiting = threading.Thread(target=lambda: found.append(ride.losses(SEQUENCES, adapted=True).number))
        waiting.start()
        while busy.tasks < 2:
            time.sleep(0.005)
        with Matchmaker(sockets) as agent:
            while not agent.hellos:
                time.sleep(0.005)
            assert not found
            learner.works = True
            busy._wake()
            waiting.join()
    assert [hello.pair for hello in agent.hellos] == [False]
    assert found == [2]


def test_an_engine_that_gets_on_with_its_riders_tasks_is_waited_for(
    ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes."""
    monkeypatch.setattr(ride_module, "STAY_SECONDS", 0.0)
    now = count(0, 200)
    monkeypatch.setattr(ride_module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    said = [Working(), Working(), ResultHeader(number=1, loss_sum=0.5, learned_tokens=2, correct_tokens=1)]

    def says() -> None:
        # 600 s and more in all, and less each time.
        if next(looks) % 2:
            its.send(said.pop(0).model_dump_json().encode())

    looks = count()
    monkeypatch.setattr(ride._link, "stay", says)
    with mine, its:
        assert ride._answered(mine)[0].number == 1
        assert said == []
        its.send(Welcome().model_dump_json().encode())
        with pytest.raises(ride_module._LostError, match="another question"):
            ride._answered(mine)


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
