"""The ride sockets: engines and jobs are brought together, whatever anybody says there."""

import contextlib
import errno
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from descriptors import open_descriptors
from gate.lingering import Lingering
from gate.rig import until
from node_agent.riding import Engine, Job, Process, connected, has_ended, is_quiet, received

from rowen.crds.ride.messages import JobHello, Welcome
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.ride import hall
from rowen.node_agent.ride.door import EngineDoorway, RideDoor, SeatDoorway

JOB = JobHello().model_dump_json()


class House:
    """Two devices, and two seats of pods that are told apart by the socket alone."""

    def __init__(self, folder: Path) -> None:
        self.engine_paths = {device: folder / f"engine-{device}/ride.sock" for device in "ab"}
        self.engine_path = self.engine_paths["a"]
        self.seats = {name: folder / name / "ride.sock" for name in ("a-0", "a-1")}
        self.uids = {"a-0": "pod-0", "a-1": "pod-1"}
        self.devices = {"a-0": "a", "a-1": "a"}
        self.refuses = ""
        self.gone: set[str] = set()
        """Pods that have no seat any more."""
        self._kept: list[socket.socket] = []
        self.door = self.opened()

    def opened(self) -> RideDoor:
        door = RideDoor(lambda uid: uid in self.gone)
        seats = [
            SeatDoorway(path, name, lambda _, name=name: (self.uids[name], self.devices[name]))
            for name, path in self.seats.items()
        ]
        door.open(EngineDoorway(self.engine_path, "a", self.vet), seats)
        door.open(EngineDoorway(self.engine_paths["b"], "b", self.vet), [])
        door.start()
        return door

    def vet(self, pid: int) -> str:
        if self.refuses:
            raise AttachRefused(self.refuses)
        return "engine-pod"

    def engine(self, seats: int = 8, device: str = "a") -> Engine:
        """One that is in."""
        before = self.door.engine(device)
        engine = Engine(self.engine_paths[device], seats)
        self._kept.append(engine.line)
        until(lambda: (view := self.door.engine(device)) is not None and view != before)
        return engine

    def job(self, seat: str, *, pair: bool = True) -> Job:
        """One that has asked, and stays."""
        job = Job(self.seats[seat], pair=pair)
        self._kept += [job.line, *([job.pair] if job.pair else [])]
        return job

    def close(self) -> None:
        self.door.close()
        for line in self._kept:
            line.close()

    def counts(self, seat: str = "a-0"):
        return self.door.counts(seat, self.uids[seat])


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(hall, "_PAIR_SECONDS", 0.0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        house = House(Path(folder))
        yield house
        house.close()


def talk(one: socket.socket, other: socket.socket) -> None:
    one.send(b"there")
    assert other.recv(16) == b"there"
    other.send(b"back")
    assert one.recv(16) == b"back"


def test_a_job_and_its_engine_get_one_end_each(house):
    engine = house.engine()
    job = house.job("a-0")
    guest, pair = engine.guest()
    assert guest.pod == "pod-0"
    talk(job.joined, pair)
    other = house.job("a-1")
    second, _ = engine.guest()
    assert (second.pod, second.number == guest.number) == ("pod-1", False)
    assert other.pair is not None


def test_without_an_engine_it_is_told_so_and_may_ask_again(house):
    job = house.job("a-0")
    assert (job.pair, job.welcome.reason) == (None, "no engine of device a takes riders in now")
    assert has_ended(job.line)
    engine = house.engine()
    assert house.job("a-0").pair is not None
    engine.guest()


def test_an_engine_has_so_many_seats(house):
    house.engine(seats=1)
    first = house.job("a-0")
    assert first.pair is not None
    assert house.job("a-1").welcome.reason == "all seats in the engine of device a are taken"
    first.line.close()
    until(lambda: not house.counts().attached)
    assert house.job("a-1").pair is not None


def test_a_seat_gets_one_engine_after_the_other_but_not_at_once(house, monkeypatch):
    monkeypatch.setattr(hall, "_PAIR_SECONDS", 60.0)
    house.engine()
    first = house.job("a-0")
    assert first.pair is not None
    assert "ask again in a second" in house.job("a-0").welcome.reason
    assert house.job("a-1").pair is not None
    # Who is refused keeps what it has.
    assert house.door.joined("a") == 2
    assert is_quiet(first.line)


def test_an_engine_that_does_not_listen_holds_nobody_up(house):
    house.engine()
    end = time.monotonic() + 60
    while (job := house.job("a-0")).pair is not None:
        assert time.monotonic() < end
        job.joined.close()
        job.line.close()
    assert job.welcome.reason == "the engine of device a does not answer"


def test_a_job_notices_that_its_engine_is_gone_and_gets_the_next(house):
    engine = house.engine()
    job = house.job("a-0")
    _, pair = engine.guest()
    until(lambda: house.counts().attached == 1)
    pair.close()
    engine.line.close()
    assert has_ended(job.joined)
    until(lambda: house.counts().attached == 0)
    assert house.door.engine("a") is None
    engine = house.engine()
    again = house.job("a-0")
    talk(again.joined, engine.guest()[1])
    assert has_ended(job.line)


def test_an_engine_in_which_nothing_rides_any_more_gets_no_jobs(house):
    engine = house.engine()
    job = house.job("a-0")
    engine.tell(ended="the planner failed")
    until(lambda: house.door.engine("a").ended == "the planner failed")
    assert house.counts().attached == 0
    reason = "nothing rides in the engine of device a any more: the planner failed"
    assert house.job("a-1").welcome.reason == reason
    assert job.pair is not None
    engine.tell()
    until(lambda: house.door.engine("a").sums is not None)
    assert house.door.engine("a").ended == "the planner failed"


def test_what_the_engine_tells_is_seen(house):
    engine = house.engine()
    assert house.door.engine("a").sums is None
    for steps in (1, 2, 3):
        engine.tell(steps=steps, seconds=0.5, forward_tokens=40)
    until(lambda: (sums := house.door.engine("a").sums) is not None and sums.steps == 3)
    assert house.door.engine("a").sums.forward_tokens == 40


def test_progress_is_seen_and_kept_when_the_job_has_gone(house):
    house.engine()
    job = house.job("a-0")
    job.progress(0, 10, 0)
    job.progress(3, 10, 700)
    until(lambda: house.counts().reports == 2)
    job.line.close()
    until(lambda: not house.counts().attached)
    counts = house.counts()
    assert (counts.completed, counts.total, counts.tokens) == (3, 10, 700)
    assert 0 < counts.granted_seconds <= counts.open_seconds
    assert house.door.counts("a-0", "another pod").reports == 0


def test_one_that_reaches_its_engine_by_itself_only_tells_its_progress(house):
    job = house.job("a-0", pair=False)
    assert (job.pair, job.welcome) == (None, Welcome())
    job.progress(1, 2, 3)
    until(lambda: house.counts().reports == 1)
    assert house.counts().attached == 0
    engine = house.engine()
    until(lambda: house.counts().attached == 1)
    assert is_quiet(engine.line)
    engine.line.close()
    until(lambda: house.counts().attached == 0)


def test_who_rides_rides_on_without_the_agent_and_is_known_to_the_next(house):
    engine = house.engine()
    job = house.job("a-0")
    _, pair = engine.guest()
    house.door.close()
    assert has_ended(job.line)
    assert has_ended(engine.line)
    talk(job.joined, pair)
    house.door = house.opened()
    house.engine()
    house.job("a-0", pair=False)
    until(lambda: house.counts().attached == 1)
    talk(job.joined, pair)


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (b"{", "no JobHello: Invalid JSON"),
        (b"\xff\x00", "no JobHello: Invalid JSON"),
        (b"[]", "no JobHello: "),
        (b'{"pair": "perhaps"}', "no JobHello: pair: "),
        (b'{"version": 2}', "this agent speaks version 1 of riding"),
        (b'{"version": 1e400}', "no JobHello: version: "),
        (b"[" * 9000, "no JobHello: Invalid JSON"),
        (b'{"pair": true' + b" " * 16384 + b"}", "at most 16384 bytes"),
    ],
)
def test_what_is_no_hello_is_refused_and_the_next_one_is_let_in(house, hello, reason):
    house.engine()
    line = connected(house.seats["a-0"])
    line.send(hello)
    data, pairs = received(line)
    found = Welcome.model_validate_json(data).reason
    assert reason in found
    assert len(found) <= 256
    assert pairs == []
    assert has_ended(line)
    assert house.job("a-0").pair is not None


def test_an_engine_of_another_pod_is_refused(house):
    house.refuses = "device a is known as pod chat-0's"
    line = Engine(house.engine_path).line
    assert Welcome.model_validate_json(received(line)[0]).reason == house.refuses
    assert has_ended(line)
    assert house.door.engine("a") is None


@pytest.mark.parametrize("said", [b"", b"?", b'{"sums": {"steps": -1}}', b'{"sums": {"seconds": 1e999}}', b"{}"])
def test_an_engine_that_says_what_cannot_be_is_let_go(house, said):
    engine = house.engine()
    engine.line.send(said)
    assert has_ended(engine.line)
    until(lambda: house.door.engine("a") is None)


@pytest.mark.parametrize(
    "said", [b"?", b'{"completed": 1}', b'{"completed": 1, "total": 2, "tokens": 9223372036854775808}']
)
def test_a_job_that_says_what_cannot_be_is_let_go(house, said):
    engine = house.engine()
    job = house.job("a-0")
    job.line.send(said)
    assert has_ended(job.line)
    assert house.counts().reports == 0
    assert is_quiet(job.joined)
    assert house.job("a-1").pair is not None
    engine.guest()


@pytest.mark.parametrize("when", ["with the hello", "later"])
def test_descriptors_are_not_taken(house, when):
    lingering = Lingering()
    house.engine()
    if when == "later":
        line = house.job("a-0").line
    else:
        line = connected(house.seats["a-0"])
    # The last close of this one waits, and nobody waits for it.
    lingering.send(line, JOB.encode())
    assert has_ended(line)
    assert house.job("a-1").pair is not None
    lingering.end()
    assert house.job("a-0").pair is not None


def test_strangers_that_say_nothing_are_sent_away_and_keep_no_other_seat_out(house):
    house.engine()
    strangers = [connected(house.seats["a-0"]) for _ in range(9)]
    assert Welcome.model_validate_json(received(strangers[8])[0]).reason == "too many processes come in at once"
    assert house.job("a-1").pair is not None
    assert all(has_ended(stranger) for stranger in strangers)
    assert house.job("a-0").pair is not None


def test_a_flood_of_messages_keeps_nobody_else_out(house):
    house.engine()
    flood = house.job("a-0", pair=False)
    flood.line.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            flood.progress(1, 2, 3)
    assert house.job("a-1").pair is not None
    assert house.counts().attached


def test_a_seat_belongs_to_a_process_until_it_has_ended(house):
    house.engine()
    first = Process(house.seats["a-0"], JOB)
    assert "reason" not in first.answer
    house.uids["a-0"] = "pod-2"
    assert house.job("a-0").welcome.reason == "the seat belongs to another process, which still runs"
    first.end()
    until(lambda: house.job("a-0").pair is not None)
    assert house.counts().attached == 1


def pass_rounds(house, engine: Engine, *guests: str, device: str = "a") -> None:
    """Several in which the agent looks for who is to go."""
    for steps in range(1, 5):
        engine.tell(guests=guests, steps=steps)
        until(lambda steps=steps: (sums := house.door.engine(device).sums) is not None and sums.steps == steps)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent looks in each round."""
    monkeypatch.setattr(hall, "_LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("looking")
def test_one_that_hangs_up_rides_on_and_is_counted_by_the_engines_word(house):
    engine = house.engine(seats=1)
    job = house.job("a-0")
    engine.guest()
    job.line.close()
    until(lambda: not house.counts().attached)
    pass_rounds(house, engine, "pod-0")
    assert house.door.joined("a") == 1
    assert house.job("a-1").welcome.reason == "all seats in the engine of device a are taken"
    other = Process(house.seats["a-0"], JOB)
    assert "the seat belongs to another process, which still runs" in other.answer
    other.end()
    # Its process runs: it has its seat, and gets another pair in the place of that.
    assert is_quiet(engine.line)
    assert house.job("a-0").pair is not None
    assert engine.guest()[0].pod == "pod-0"
    assert house.door.joined("a") == 1


@pytest.mark.usefixtures("looking")
def test_a_guest_whose_process_has_ended_is_to_go(house):
    engine = house.engine()
    first = Process(house.seats["a-0"], JOB)
    _, pair = engine.guest()
    engine.tell(guests=("pod-0",))
    until(lambda: house.door.engine("a").sums is not None)
    first.end()
    # Somebody else has the pair.
    assert engine.leaver() == "pod-0"
    assert house.door.joined("a") == 1
    engine.tell()
    until(lambda: house.door.joined("a") == 0)
    pair.close()


@pytest.mark.usefixtures("looking")
def test_the_next_process_of_a_pod_rides_whatever_the_engine_told_before(house):
    engine = house.engine()
    first = Process(house.seats["a-0"], JOB)
    engine.guest()
    first.end()
    until(lambda: house.job("a-0").pair is not None)
    engine.guest()
    pass_rounds(house, engine, "pod-0")
    assert is_quiet(engine.line)


@pytest.mark.usefixtures("looking")
def test_an_engine_that_does_not_name_its_guests_is_told_of_none(house):
    engine = house.engine()
    first = Process(house.seats["a-0"], JOB)
    engine.guest()
    first.end()
    until(lambda: not house.counts().attached)
    pass_rounds(house, engine)
    assert is_quiet(engine.line)


@pytest.mark.usefixtures("looking")
def test_after_a_restart_a_guest_goes_once_its_pod_is_known_to_be_gone(house):
    house.door.close()
    house.door = house.opened()
    engine = house.engine()
    pass_rounds(house, engine, "pod-0")
    assert is_quiet(engine.line)
    assert house.door.joined("a") == 1
    house.gone.add("pod-0")
    assert engine.leaver() == "pod-0"


@pytest.mark.usefixtures("looking")
def test_a_pod_that_rides_on_two_devices_leaves_each_by_itself(house):
    house.uids["a-1"], house.devices["a-1"] = "pod-0", "b"
    one, other = house.engine(), house.engine(device="b")
    # After a restart: the other device's process has not come again yet.
    first = Process(house.seats["a-0"], JobHello(pair=False).model_dump_json())
    until(lambda: house.counts().attached)
    first.end()
    until(lambda: not house.counts().attached)
    pass_rounds(house, other, "pod-0", device="b")
    assert is_quiet(other.line)
    # Nor does that one keep what the first has left behind.
    house.job("a-1", pair=False)
    one.tell(guests=("pod-0",))
    assert one.leaver() == "pod-0"
    assert is_quiet(other.line)


@pytest.mark.parametrize("handle", ["_owner_ends", "_rider_ends", "_hear_rider"])
def test_one_that_cannot_be_watched_does_not_ride_and_keeps_no_seat(house, monkeypatch, handle):
    engine, watch = house.engine(), Loop.watch

    def fail(loop, file, what):
        if isinstance(what, partial) and what.func.__name__ == handle:
            raise OSError(errno.ENOSPC, "no more can be watched")
        watch(loop, file, what)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "watch", fail)
        first = Process(house.seats["a-0"], JOB)
    assert "no more can be watched" in first.answer
    if handle == "_owner_ends":
        assert is_quiet(engine.line)
    else:
        assert has_ended(engine.guest()[1])
    first.end()
    until(lambda: house.job("a-0").pair is not None)
    assert house.counts().attached == 1


def test_an_engine_that_cannot_be_watched_is_not_in(house, monkeypatch):
    watch = Loop.watch

    def fail(loop, file, what):
        if isinstance(what, partial) and what.func.__name__ == "_hear_engine":
            raise OSError(errno.ENOSPC, "no more can be watched")
        watch(loop, file, what)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "watch", fail)
        line = Engine(house.engine_path).line
        assert "no more can be watched" in Welcome.model_validate_json(received(line)[0]).reason
    assert house.door.engine("a") is None
    house.engine()
    assert house.job("a-0").pair is not None


def test_one_process_of_an_engine_takes_riders_in(house):
    first = Process(house.engine_path, '{"version": 2}')
    assert "speaks version 1" in first.answer
    first.end()
    engine = house.engine()
    second = Process(house.engine_path, "{}")
    assert "another process of the engine takes its riders in" in second.answer
    second.end()
    assert house.job("a-0").pair is not None
    assert engine.guest()


def test_nothing_is_left_open(monkeypatch):
    before = open_descriptors()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        house = House(Path(folder))
        engine, stranger = house.engine(), connected(house.seats["a-1"])
        house.job("a-0")
        _, pair = engine.guest()
        house.close()
        stranger.close()
        pair.close()
    assert open_descriptors() == before
