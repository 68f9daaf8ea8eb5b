"""An engine's seat: tasks come in, results go out."""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy
import pytest
from coserve_seat.stranger import FLOATS, PLACES, Stranger, memory, sequences, until, weights
from descriptors import open_descriptors
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.ride.messages import MOST_SEATS, StepSums
from rowen.runtime.coserve.seat import reception as reception_module
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.reception import Reception
from rowen.runtime.coserve.seat.seat import Arrival, Departure, Seat
from rowen.runtime.coserve.task import Pair, Result, Task, TaskUnsuitable
from rowen.runtime.coserve.wire.memory import read
from rowen.runtime.coserve.wire.messages import ResultHeader, Welcome, Working

Come = Callable[[], Stranger]


def next_event(seat: Seat) -> Arrival | Departure:
    events: list[Arrival | Departure] = []

    def came() -> bool:
        events.extend(seat.take())
        return bool(events)

    until(came)
    [event] = events
    return event


def next_task(seat: Seat) -> tuple[int, Task]:
    event = next_event(seat)
    assert isinstance(event, Arrival)
    return event.guest, event.task


def answer_to(task: Task, value: float = 3.0) -> Result:
    gradients = {place: Pair(pair.a + value, pair.b + value) for place, pair in task.adapter.pairs.items()}
    return Result(task.number, loss_sum=1.5, learned_tokens=4, correct_tokens=1, gradients=gradients)


def lent_to(job: Stranger, seat: Seat) -> int:
    """The file that it gets with the answer to a task."""
    job.task()
    guest, task = next_task(seat)
    seat.deliver(guest, answer_to(task))
    heard = job.hear()
    assert heard is not None
    [file] = heard[1]
    return file


def test_a_task_arrives_as_it_was_sent(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task(loss_scale=0.25)
        _, task = next_task(seat)
        assert (task.number, task.loss_scale, task.gradients, task.adapter.scaling) == (7, 0.25, True, 2.0)
        assert list(task.adapter.pairs) == PLACES
        assert [tuple(pair.a.shape) for pair in task.adapter.pairs.values()] == [(2, 8), (2, 8)]
        assert [tuple(pair.b.shape) for pair in task.adapter.pairs.values()] == [(8, 2), (4, 2)]
        assert [sequence.tokens.tolist() for sequence in task.sequences] == [[0, 1, 2], [3, 4]]
        assert [sequence.labels.tolist() for sequence in task.sequences] == [[1, 2, 3], [4, 5]]


def test_the_answer_goes_back(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task()
        guest, task = next_task(seat)
        seat.deliver(guest, answer_to(task))
        heard = job.hear()
        assert heard is not None
        said, [file] = heard
        assert said == ResultHeader(number=7, loss_sum=1.5, learned_tokens=4, correct_tokens=1)
        found = numpy.empty(FLOATS, dtype=numpy.float32)
        read(file, found)
        assert (found == 4).all()
        os.close(file)


def test_who_waits_hears_that_the_engine_gets_on(seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch) -> None:
    with come().welcomed() as waiting, come() as older, come().welcomed() as idle:
        older.hello(hears_working=False)
        assert older.hear() == (Welcome(), [])
        older.task()
        other, _ = next_task(seat)
        waiting.task()
        guest, task = next_task(seat)
        monkeypatch.setattr(reception_module, "_WORKING_SECONDS", 0.0)
        reception = seat._reception
        monkeypatch.setattr(reception, "_working_at", 0.0)
        for worked in (StepSums(forward_tokens=1), StepSums(forward_tokens=1, riding_seconds=0.1)):
            seat.tell(worked, None)
            reception.ring()
            heard = waiting.hear()
            assert heard == (Working(), [])
        # Nobody is worked for now, and it is not said.
        for _ in range(3):
            reception.ring()
        idle.task()
        last, _ = next_task(seat)
        for number, job in ((guest, waiting), (other, older), (last, idle)):
            seat.deliver(number, answer_to(task))
            heard = job.hear()
            assert heard is not None
            assert isinstance(heard[0], ResultHeader)
            os.close(heard[1][0])


def test_a_loss_that_is_no_number_arrives(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task(gradients=False)
        guest, _ = next_task(seat)
        seat.deliver(guest, Result(7, float("nan"), 1, 0, {}))
        heard = job.hear()
        assert heard is not None
        assert isinstance(heard[0], ResultHeader)
        assert numpy.isnan(heard[0].loss_sum)


def test_weights_stay_until_others_come(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        seen = []
        for number, files in enumerate(([memory(weights(1)), memory(sequences())], [memory(sequences())])):
            job.task(files, number=number, fresh=number == 0, gradients=False)
            guest, task = next_task(seat)
            seen.append({float(pair.a.max()) for pair in task.adapter.pairs.values()})
            seat.deliver(guest, Result(number, 1.0, 1, 0, {}))
            assert job.hear() is not None
        job.task([memory(weights(5)), memory(sequences())])
        _, task = next_task(seat)
        assert [*seen, {float(task.adapter.pairs[PLACES[1]].b.max())}] == [{1.0}, {1.0}, {5.0}]


def test_the_base_model_is_asked_without_weights(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task([memory(sequences())], adapted=False, fresh=False, gradients=False)
        _, task = next_task(seat)
        assert not task.adapter.pairs


def test_what_was_lent_is_taken_back_with_the_next_task(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        file = lent_to(job, seat)
        assert os.fstat(file).st_size == FLOATS * 4
        job.task()
        until(lambda: os.fstat(file).st_size == 0)
        os.close(file)


def test_what_was_lent_longest_is_taken_back_where_all_of_it_is_too_much(
    seat: Seat, come: Come, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(host), "most_lent_bytes", 2 * FLOATS * 4)
    jobs = [come().welcomed() for _ in range(3)]
    files = []
    for job in jobs:
        job.task()
        guest, task = next_task(seat)
        seat.deliver(guest, answer_to(task))
        heard = job.hear()
        assert heard is not None
        files += heard[1]
    until(lambda: [os.fstat(file).st_size for file in files] == [0, FLOATS * 4, FLOATS * 4])
    # It rides on.
    jobs[0].task()
    next_task(seat)
    for file in files:
        os.close(file)
    for job in jobs:
        job.line.close()


def test_what_was_lent_for_long_is_taken_back_and_who_waits_for_its_memory_looks(
    seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    with come().welcomed() as job:
        job.task()
        guest, task = next_task(seat)
        kept, answer = weakref.ref(task), answer_to(task)
        del task
        original = weakref.ref(answer)
        seat.deliver(guest, answer)
        del answer
        heard = job.hear()
        assert heard is not None
        [file] = heard[1]
        until(lambda: original() is None)
        # Whoever counts what was lent sees by the task that it is not back yet.
        assert kept() is not None
        assert os.fstat(file).st_size == FLOATS * 4
        after_recall: list[bool] = []
        monkeypatch.setattr(seat, "_wake", lambda: after_recall.append(kept() is None))
        monkeypatch.setattr(reception_module, "_LENT_SECONDS", 0.0)
        seat._reception.ring()
        until(lambda: os.fstat(file).st_size == 0)
        until(lambda: after_recall == [True])
        os.close(file)
        # It rides on.
        job.task()
        next_task(seat)


def test_while_another_one_waits_nobody_keeps_an_answer_for_long(
    seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception_module, "_WANTED_SECONDS", 0.0)
    with come().welcomed() as keeps:
        file = lent_to(keeps, seat)
        with come().welcomed() as waits:
            # The thread has come round several times.
            assert os.fstat(file).st_size == FLOATS * 4
            waits.task()
            until(lambda: os.fstat(file).st_size == 0)
            next_task(seat)
            # It rides on.
            keeps.task()
            next_task(seat)
        os.close(file)


@pytest.mark.parametrize("anew", [False, True])
def test_an_answer_that_is_held_up_on_its_way_back_is_known_to_be_there(
    seat: Seat, come: Come, agent: Matchmaker, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    agent.pod = "one"
    held = threading.Event()
    woken: list[bool] = []
    with come().welcomed() as job:
        job.task()
        guest, task = next_task(seat)
        kept, answer = weakref.ref(task), answer_to(task)
        del task
        seat.deliver(guest, answer)
        del answer
        heard = job.hear()
        assert heard is not None
        [file] = heard[1]
        monkeypatch.setattr(seat, "_wake", lambda: woken.append(kept() is None))
        # As by what the pod has sent, which takes long to close.
        seat._reception._disposals["one"].do(partial(held.wait, 60))
        with come().welcomed() if anew else nullcontext(job) as other:
            if anew:
                assert next_event(seat) == Departure(guest)
            other.task()
            next_task(seat)
            # Whoever counts what was lent sees by the former task that it is not back.
            assert kept() is not None
            assert os.fstat(file).st_size == FLOATS * 4
            held.set()
            until(lambda: woken[-1:] == [True])
            assert os.fstat(file).st_size == 0
    os.close(file)


def test_a_guest_that_goes_is_told_of(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task()
        guest, _ = next_task(seat)
    assert next_event(seat) == Departure(guest)
    # Who computes may not have heard of it yet.
    seat.deliver(guest, TaskUnsuitable("too late"))


def test_of_guests_that_have_gone_little_is_kept_for_an_engine_that_takes_nothing(
    seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.runtime.coserve.seat.seat._MOST_EVENTS", 1)
    with come().welcomed() as known:
        known.task()
        guest, _ = next_task(seat)
        for _ in range(3):
            with come().welcomed() as job:
                job.task()
                until(lambda: any(isinstance(event, Arrival) for event in seat._events))
            until(lambda: not any(isinstance(event, Arrival) for event in seat._events))
    until(lambda: Departure(guest) in seat._events)
    assert len(seat.take()) == 2


def test_what_the_engine_cannot_do_ends_the_ride(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task()
        guest, _ = next_task(seat)
        seat.deliver(guest, TaskUnsuitable("too much memory"))
        refusal = job.refused()
        assert (refusal.message, refusal.retry) == ("too much memory", False)


def test_several_guests_ride_at_once(seat: Seat, come: Come) -> None:
    jobs = [come().welcomed() for _ in range(MOST_SEATS)]
    try:
        with come() as one_more:
            assert one_more.refused().retry
        for number, job in enumerate(jobs):
            job.task(number=number)
            guest, task = next_task(seat)
            assert task.number == number
            seat.deliver(guest, answer_to(task))
        heard = [job.hear() for job in jobs]
        assert [said.number for said, _ in heard if isinstance(said, ResultHeader)] == list(range(MOST_SEATS))
        for _, files in heard:
            os.close(files[0])
    finally:
        for job in jobs:
            job.line.close()


def test_a_pod_rides_once(seat: Seat, come: Come, agent: Matchmaker) -> None:
    agent.pod = "one"
    with come().welcomed() as former, come().welcomed() as job:
        assert former.refused().message == "the pod has come in anew"
        assert isinstance(next_event(seat), Departure)
        agent.pod = "another"
        with come().welcomed():
            job.task()
            next_task(seat)


def test_a_guest_whose_pod_has_left_its_seat_is_let_go(seat: Seat, come: Come, agent: Matchmaker) -> None:
    agent.pod = "one"
    with come().welcomed() as leaves:
        agent.pod = "another"
        with come().welcomed() as stays:
            until(lambda: agent.states[-1].guests == ("another", "one"))
            # What is of another version is passed over, as is what is said of nobody.
            agent.dismiss("another", version=2)
            agent.dismiss("nobody")
            agent.dismiss("one")
            refusal = leaves.refused()
            assert "no seat any more" in refusal.message
            assert refusal.retry
            assert isinstance(next_event(seat), Departure)
            until(lambda: agent.states[-1].guests == ("another",))
            stays.task()
            next_task(seat)
    until(lambda: agent.states[-1].guests == ())


def test_the_agent_hears_what_rides(seat: Seat, agent: Matchmaker) -> None:
    seat.tell(StepSums(steps=5), None)
    until(lambda: any(state.sums.steps == 5 for state in agent.states))


def test_when_riding_has_ended_all_are_let_go(seat: Seat, come: Come, agent: Matchmaker) -> None:
    with come().welcomed() as job, come().welcomed() as working:
        working.task()
        next_task(seat)
        seat.tell(StepSums(), "its learner failed")
        for guest in (job, working):
            refusal = guest.refused()
            assert refusal.retry
            assert "its learner failed" in refusal.message
    with come() as late:
        assert late.refused().retry
    until(lambda: any(state.ended == "its learner failed" for state in agent.states))


def test_where_the_seat_itself_fails_the_agent_hears_of_it(
    seat: Seat, come: Come, agent: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with come().welcomed() as job, monkeypatch.context() as patch:
        patch.setattr(Reception, "_drop_silent", fail)
        seat.deliver(99, TaskUnsuitable("nobody's"))
        assert "its seat failed" in job.refused().message
        until(lambda: any(state.ended == "its seat failed: MemoryError" for state in agent.states))
    with come() as late:
        assert "its seat failed" in late.refused().message
    seat.tell(StepSums(steps=9), None)
    until(lambda: agent.states[-1].sums.steps == 9)
    assert agent.states[-1].ended == "its seat failed: MemoryError"


def test_the_agent_may_come_later_and_again(sockets: Path, host: Host) -> None:
    seat = Seat(str(sockets / "engine"), host, lambda: None)
    try:
        for _ in range(2):
            with Matchmaker(sockets) as agent:
                until(lambda: agent.states != [])
    finally:
        seat.close()


def test_guests_ride_on_without_the_agent(seat: Seat, come: Come, agent: Matchmaker) -> None:
    with come().welcomed() as job:
        agent.stop()
        job.task()
        guest, task = next_task(seat)
        seat.deliver(guest, answer_to(task))
        assert job.hear() is not None


def test_a_seat_that_is_closed_leaves_nothing(agent: Matchmaker, host: Host) -> None:
    before = open_descriptors()
    seat = Seat(agent.engine_path, host, lambda: None)
    until(lambda: agent.states != [])
    seat.close()
    # The agent's end of what was its connection.
    until(lambda: len(open_descriptors()) <= len(before) + 1)
