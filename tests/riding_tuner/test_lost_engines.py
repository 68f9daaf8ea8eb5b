"""An engine that goes away for long, or again and again, ends the attempt; what the worker says tells how it was."""

import errno
import socket
import threading
import time
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from riding_tuner.engine import Engine, Start
from riding_tuner.instant import SEQUENCES, Instant
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.job.worker import ExitCode
from rowen.runtime.coserve.seat import guest as guest_module
from rowen.runtime.coserve.seat.admission import Unwelcome
from rowen.runtime.coserve.seat.guest import Guest
from rowen.runtime.coserve.wire.layout import AdapterLayout
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.riding import ride as ride_module
from rowen.runtime.tuning.riding.ride import Ride


def test_without_an_engine_it_ends_for_another_attempt(
    agent: Matchmaker, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    with pytest.raises(WorkerError, match="no engine") as lost:
        ride.losses(SEQUENCES, adapted=True)
    assert (lost.value.reason, lost.value.code) == ("RideLost", ExitCode.RETRY)


def test_an_engine_that_was_lost_over_a_task_and_stays_away_is_told(
    agent: Matchmaker, engine: Start, ride: Ride, learner: Instant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    learner.works = False
    only = engine()

    def end() -> None:
        while not only.tasks:
            time.sleep(0.005)
        only.close()

    other = threading.Thread(target=end)
    other.start()
    with pytest.raises(WorkerError, match="one was lost over the task, and no engine for") as broken:
        ride.gradients(SEQUENCES, 1.0)
    other.join()
    assert (broken.value.reason, broken.value.code) == ("RideBroken", ExitCode.RETRY)


def test_an_engine_that_leaves_between_two_tasks_was_not_lost_over_one(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    with engine():
        ride.gradients(SEQUENCES, 1.0)
    with pytest.raises(WorkerError, match="no engine") as lost:
        ride.gradients(SEQUENCES, 1.0)
    assert lost.value.reason == "RideLost"


def test_without_an_agent_too(ride: Ride, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    with pytest.raises(WorkerError, match="agent") as lost:
        ride.losses(SEQUENCES, adapted=True)
    assert lost.value.reason == "RideLost"


def end_three(engine: Start, asked: list[int]) -> None:
    """Engines one after the other, each of which ends once it has the task."""
    for _ in range(3):
        with engine() as ending:
            while not ending.tasks:
                time.sleep(0.005)
            asked.append(ending.tasks)


@pytest.mark.parametrize(
    ("word", "said", "reason"),
    [(False, "3 engines were lost over the same task", "RideRefused"), (True, "the engine ends, 3 times", "RideLost")],
)
def test_engines_are_not_lost_over_one_task_again_and_again(
    agent: Matchmaker,
    engine: Start,
    ride: Ride,
    learner: Instant,
    monkeypatch: pytest.MonkeyPatch,
    word: bool,
    said: str,
    reason: str,
) -> None:
    """One that is stopped says so; what a task may have brought down does not."""
    let_go = Guest.let_go
    if not word:
        monkeypatch.setattr(Guest, "let_go", lambda guest, *_: let_go(guest))
    learner.works = False
    asked: list[int] = []
    other = threading.Thread(target=end_three, args=(engine, asked))
    other.start()
    with pytest.raises(WorkerError, match=said) as refused:
        ride.gradients(SEQUENCES, 1.0)
    other.join()
    assert asked == [1, 1, 1]
    assert refused.value.reason == reason


def test_an_engine_that_has_no_memory_for_the_gradients_is_not_lost(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, left = guest_module.written, [2]

    def full(*arguments: Any) -> int:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(*arguments)

    monkeypatch.setattr(guest_module, "written", full)
    with engine() as there:
        assert ride.gradients(SEQUENCES, 1.0).learned_tokens == 2
        left[0] = 1000
        with pytest.raises(WorkerError, match=r"no memory for the gradients: .*, 3 times") as lost:
            ride.gradients(SEQUENCES, 1.0)
        assert there.tasks == 6
    assert lost.value.reason == "RideLost"


def test_an_engine_that_does_not_take_the_job_in_yet_is_waited_for(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it says so: it has no task to turn away."""
    admit, times = guest_module.admit, count(1)

    def admitted(*arguments: Any) -> AdapterLayout:
        if next(times) <= 4:
            raise Unwelcome("the job's worker speaks another version", retry=True)
        return admit(*arguments)

    monkeypatch.setattr(guest_module, "admit", admitted)
    with engine():
        assert ride.losses(SEQUENCES, adapted=True).loss_sum == 1
    assert next(times) == 6


def test_engines_that_no_task_reaches_are_looked_for_no_longer_than_any(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each takes the job in."""
    monkeypatch.setattr(ride_module, "_LOST_SECONDS", 0.3)
    send, tries = ride_module.send, count(1)

    def broken(line: socket.socket, data: bytes, memory: Sequence[int] = ()) -> None:
        if memory:
            assert next(tries) < 100
            raise BrokenPipeError("the engine has gone")
        send(line, data)

    monkeypatch.setattr(ride_module, "send", broken)
    with engine() as there:
        with pytest.raises(WorkerError, match=r"no engine for .*: the engine has gone") as lost:
            ride.gradients(SEQUENCES, 1.0)
        assert there.tasks == 0
    assert next(tries) > 2
    assert lost.value.reason == "RideLost"


def test_answers_that_are_taken_back_before_they_are_read_are_no_engine_that_was_lost(
    agent: Matchmaker, engine: Start, ride: Ride, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another rider's answers need the memory again and again."""
    read, left = ride_module.read, [2]

    def taken_back(file: int, buffer: object) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise EOFError
        read(file, buffer)

    monkeypatch.setattr(ride_module, "read", taken_back)
    with engine() as there:
        assert ride.gradients(SEQUENCES, 1.0).learned_tokens == 2
        left[0] = 1000
        with pytest.raises(WorkerError, match="took its answer back before it was read, 3 times") as lost:
            ride.gradients(SEQUENCES, 1.0)
        assert there.tasks == 6
    # It may ride elsewhere.
    assert lost.value.reason == "RideLost"


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
