"""Guests that mean no good are let go, and nobody else notices."""

import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
from coserve_seat.stranger import FLOATS, PLACES, Stranger, memory, sequences, until, weights
from coserve_seat.test_seat import Come, answer_to, lent_to, next_event, next_task
from descriptors import open_descriptors

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve.seat import guest as guest_module
from rowen.runtime.coserve.seat.admission import Unwelcome
from rowen.runtime.coserve.seat.disposal import Disposal
from rowen.runtime.coserve.seat.guest import Guest
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.seat import Arrival, Departure, Seat
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.wire.line import close_all
from rowen.runtime.coserve.wire.memory import GIVEN
from rowen.runtime.coserve.wire.messages import Hello, Welcome
from rowen.runtime.tuning.fingerprint import model_digest

Files = Callable[[], list[int]]


def is_served(seat: Seat, job: Stranger) -> bool:
    """Whether a guest gets an answer."""
    os.close(lent_to(job, seat))
    return True


def has_gone(seat: Seat) -> bool:
    """Whether a guest is told of as gone."""
    return any(isinstance(event, Departure) for event in seat.take())


def _pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (lambda: [memory(weights(), GIVEN & ~fcntl.F_SEAL_WRITE), memory(sequences())], "not sealed"),
        (lambda: [memory(weights(), GIVEN & ~fcntl.F_SEAL_SHRINK), memory(sequences())], "not sealed"),
        (lambda: [memory(weights()), memory(sequences(), GIVEN & ~fcntl.F_SEAL_SEAL)], "not sealed"),
        (lambda: [_pipe(), memory(sequences())], "no memory"),
        (lambda: [os.open("/dev/null", os.O_RDONLY), memory(sequences())], "no memory"),
        (lambda: [memory(weights()[1:]), memory(sequences())], "bytes, not"),
        (lambda: [memory(weights()), memory(sequences((3, 3), 6))], "bytes, not"),
        (lambda: [memory(None, size=FLOATS * 4), memory(sequences())], "holes"),
        (lambda: [memory(None, size=FLOATS * 4, behind=2**20), memory(sequences())], "holes"),
        (lambda: [memory(weights()), memory(sequences((4, 2), 5))], "lengths"),
        (lambda: [memory(weights()), memory(sequences((6, -1), 5))], "lengths"),
        (lambda: [memory(weights()), memory(sequences((5, 0), 5))], "lengths"),
        (lambda: [memory(weights()), memory(sequences((2**62, 2**62), 5))], "lengths"),
        (lambda: [memory(weights()), memory(sequences() + 95)], "vocabulary|lengths"),
        (lambda: [memory(weights())], "1 descriptors"),
        (list, "0 descriptors"),
        (lambda: [memory(weights()) for _ in range(200)], "200 descriptors"),
    ],
)
def test_memory_that_is_not_as_it_was_said(seat: Seat, come: Come, files: Files, words: str) -> None:
    with come().welcomed() as good, come().welcomed() as bad:
        bad.task(files())
        refusal = bad.refused()
        assert any(word in refusal.message for word in words.split("|")), refusal.message
        assert not refusal.retry
        assert isinstance(next_event(seat), Departure)
        assert is_served(seat, good)


def test_tasks_that_cost_the_seat_alone_come_no_faster_than_it_has_time(
    seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_module, "_SEAT_PART", 10**9)
    with come().welcomed() as greedy, come().welcomed() as other:
        assert is_served(seat, greedy)
        greedy.task()
        # It is not heard, others are; and what the engine says it hears.
        assert is_served(seat, other)
        assert seat.take() == []
        seat.tell(StepSums(), "the engine is shut")
        until(lambda: has_gone(seat))
        until(lambda: all(each.idle for each in seat._reception._disposals.values()))
        # The word comes although a task was not read before.
        assert "the engine is shut" in greedy.refused().message


def test_the_rest_counts_from_when_the_task_came(seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_module, "_SEAT_PART", 10**5)
    with come().welcomed() as job:
        job.task()
        number, task = next_task(seat)
        guest = seat._reception._guests[number]
        # The engine has worked on it for long.
        guest._tasked_at -= 10**9
        seat.deliver(number, answer_to(task))
        heard = job.hear()
        assert heard is not None
        os.close(heard[1][0])
        until(lambda: guest.rests_until < 0)
        assert is_served(seat, job)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 99},
        {"model": "0" * 64},
        {"precision": "BFloat16"},
        {"places": [*PLACES, PLACES[0]]},
        {"places": [(2, Target.QUERY)]},
        {"places": [(2**62, Target.QUERY)]},
        {"places": [(0, Target.DOWN)]},
    ],
)
def test_a_hello_that_does_not_fit(seat: Seat, come: Come, changes: dict[str, Any]) -> None:
    with come() as job:
        job.hello(**changes)
        # The next attempt's worker may be of the engine's release.
        assert job.refused().retry == ("version" in changes)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"kind": "Nonsense"}',
        b"\xff" * 100,
        b"[" * 60000,
        b'{"kind": "Hello", "x": "' + b"y" * 70000 + b'"}',
        b'{"kind":"Task","number":1,"adapted":true,"fresh":true,"sequences":1,"tokens":1,"lossScale":NaN,"gradients":true}',
        b'{"kind":"Task","number":-1,"adapted":true,"fresh":true,"sequences":1,"tokens":1,"lossScale":1,"gradients":true}',
    ],
)
def test_messages_that_mean_nothing(seat: Seat, come: Come, data: bytes) -> None:
    with come().welcomed() as job:
        job.send(data)
        assert not job.refused().retry


@pytest.mark.parametrize("changes", [{"tokens": 65}, {"sequences": 4096, "tokens": 2**40 - 1}])
def test_huge_counts_are_refused_before_anything_is_read(seat: Seat, come: Come, changes: dict[str, int]) -> None:
    with come().welcomed() as job:
        job.task(**changes)
        assert "tokens" in job.refused().message


def test_a_task_before_the_hello(seat: Seat, come: Come) -> None:
    with come() as job:
        job.task()
        assert "before its time" in job.refused().message


def test_a_second_hello(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.hello()
        assert "second hello" in job.refused().message


def test_a_second_task_while_the_first_is_in_work(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task()
        number, _ = next_task(seat)
        job.task()
        assert "before its time" in job.refused().message
        assert next_event(seat) == Departure(number)


def test_a_task_that_needs_weights_which_were_never_sent(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        job.task([memory(sequences())], fresh=False)
        assert "without weights" in job.refused().message


def test_a_flood_of_messages(seat: Seat, come: Come) -> None:
    def flood() -> None:
        for _ in range(100000):
            bad.hello()

    with come().welcomed() as good, come().welcomed() as bad:
        with pytest.raises(OSError):
            flood()
        assert isinstance(next_event(seat), Departure)
        assert is_served(seat, good)


def test_a_guest_that_says_nothing(seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch) -> None:
    with come().welcomed() as good:
        monkeypatch.setattr(guest_module, "HELLO_SECONDS", 0.05)
        with come() as silent:
            assert "no hello" in silent.refused().message
        assert isinstance(next_event(seat), Departure)
        assert is_served(seat, good)


def test_a_guest_that_does_not_read(host: Host) -> None:
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    guest, digest = Guest(0, mine, host, Disposal(), lambda: None, time.monotonic()), model_digest(host.model)

    def round_trip() -> None:
        job.task()
        task = guest.hear(digest)
        assert task is not None
        guest.answer(answer_to(task))

    with Stranger(its, digest) as job:
        job.hello()
        guest.hear(digest)
        while not guest.has_unsent:
            round_trip()
        heard = job.hear()
        assert heard is not None
        guest.flush()
        assert not guest.has_unsent
        while not guest.has_unsent:
            round_trip()
        with pytest.raises(Unwelcome, match="before its time"):
            round_trip()
        guest.let_go()


def fill(line: socket.socket) -> None:
    while True:
        line.send(bytes(65536))


def is_disposing() -> bool:
    return any(thread.name == "rowen-seat-disposal" for thread in threading.enumerate())


def test_a_socket_that_nobody_can_close_at_once(seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has it alone, so that closing it waits; memory that others were lent is taken back meanwhile."""
    entered, go, read_sequences = threading.Event(), threading.Event(), guest_module.read_sequences

    def hold(*arguments: Any) -> Any:
        entered.set()
        assert go.wait(10)
        return read_sequences(*arguments)

    with (
        come().welcomed() as good,
        come().welcomed() as bad,
        come().welcomed() as other,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as slow,
        server.accept()[0] as its,
    ):
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
        slow.setblocking(False)
        with pytest.raises(BlockingIOError):
            fill(slow)
        slow.setblocking(True)
        lent = lent_to(good, seat)
        with monkeypatch.context() as patch:
            patch.setattr(guest_module, "read_sequences", hold)
            other.task()
            assert entered.wait(10)
            bad.task([slow.detach(), memory(sequences())])
            events: list[Arrival | Departure] = []
            go.set()

            def came() -> bool:
                events.extend(seat.take())
                return len(events) == 2

            until(came)
        assert [type(event) for event in events] == [Arrival, Departure]
        until(is_disposing)
        assert is_served(seat, good)
        until(lambda: os.fstat(lent).st_size == 0)
        os.close(lent)
        assert is_disposing()
        its.close()
        until(lambda: not is_disposing())


def test_a_hello_comes_alone(seat: Seat, come: Come) -> None:
    with come() as job:
        job.say(Hello(model="0" * 64, precision="Float32", rank=2, scaling=2.0, places=PLACES), [memory(weights())])
        assert "with a hello" in job.refused().message


def test_memory_that_cannot_be_taken_back(host: Host) -> None:
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    disposal, freed = Disposal(), threading.Event()
    guest, digest = Guest(0, mine, host, disposal, lambda: None, time.monotonic()), model_digest(host.model)
    with Stranger(its, digest) as job:
        job.hello()
        guest.hear(digest)
        assert isinstance((job.hear() or ("",))[0], Welcome)
        disposal.do(partial(freed.wait, 10))
        lent: list[int] = []

        def keep() -> None:
            while len(lent) < 20:
                job.task()
                task = guest.hear(digest)
                assert task is not None
                guest.answer(answer_to(task))
                lent.extend((job.hear() or ("", []))[1])

        with pytest.raises(Unwelcome, match="cannot be taken back") as farewell:
            keep()
        assert farewell.value.retry
        guest.let_go(farewell.value)
        assert [os.fstat(file).st_size for file in lent] == [FLOATS * 4] * len(lent)
        freed.set()
        until(lambda: disposal.idle)
        assert [os.fstat(file).st_size for file in lent] == [0] * len(lent)
        close_all(lent)


def test_what_a_pod_sends_is_not_received_while_the_rest_cannot_be_closed(host: Host) -> None:
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    disposal, freed = Disposal(), threading.Event()
    guest, digest = Guest(0, mine, host, disposal, lambda: None, time.monotonic()), model_digest(host.model)
    with Stranger(its, digest) as job:
        while not disposal.full:
            disposal.do(partial(freed.wait, 10))
        for _ in range(2):
            job.task([memory(weights()) for _ in range(200)])
        before = open_descriptors()
        with pytest.raises(Unwelcome, match="cannot be taken back"):
            guest.hear(digest)
        guest.let_go(Unwelcome("go"))
        assert open_descriptors() == before
        assert job.refused().message == "go"
        freed.set()
        until(lambda: disposal.idle)
        assert len(open_descriptors()) == len(before) - 1


def test_it_goes_midway(seat: Seat, come: Come) -> None:
    with come().welcomed() as good:
        with come() as bad:
            bad.hello()
        assert isinstance(next_event(seat), Departure)
        with come().welcomed() as bad:
            bad.task()
            number, task = next_task(seat)
        assert next_event(seat) == Departure(number)
        seat.deliver(number, answer_to(task))
        assert is_served(seat, good)


def test_what_is_written_into_the_mapping_stays_in_the_engine(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        given = memory(weights())
        kept = os.dup(given)
        job.task([given, memory(sequences())])
        _, task = next_task(seat)
        for pair in task.adapter.pairs.values():
            pair.a.add_(1)
        assert (numpy.frombuffer(os.pread(kept, FLOATS * 4, 0), dtype=numpy.float32) == 1).all()
        os.close(kept)


def test_lent_memory_cannot_be_held(seat: Seat, come: Come) -> None:
    with come().welcomed() as job:
        file = lent_to(job, seat)
        for seal in (fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_WRITE):
            with pytest.raises(PermissionError):
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, seal)
        with pytest.raises(PermissionError):
            os.ftruncate(file, 1 << 30)
    until(lambda: os.fstat(file).st_size == 0)
    os.close(file)


def test_the_engines_own_failure_with_a_guest_is_that_guests_alone(
    seat: Seat, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    with come().welcomed() as good, come().welcomed() as bad:
        with monkeypatch.context() as patch:
            patch.setattr(guest_module, "read_sequences", fail)
            bad.task()
            assert bad.refused().retry
        assert isinstance(next_event(seat), Departure)
        assert is_served(seat, good)
