"""What processes send along, and what they leave, keeps nobody else out."""

import contextlib
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from gate.lingering import Lingering
from gate.rig import until

from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.door import Door
from rowen.node_agent.attach.entrance import AttachRefused, Doorway
from rowen.node_agent.attach.message import MAGIC, REQUEST_MAGIC
from rowen.node_agent.devices.device import Admission
from rowen.node_agent.devices.library import ABI_VERSION

HELLO = struct.pack("<QIIQ", MAGIC, ABI_VERSION, 24, 0)
HANDS_OVER = struct.pack("<QIIQII", REQUEST_MAGIC, ABI_VERSION, 32, 0, 2, 0)


@pytest.fixture
def lingering() -> Iterator[Lingering]:
    made = Lingering()
    yield made
    made.end()


class House:
    """A door with two ways in, whose thread can be held up."""

    loans = None

    def __init__(self, folder: Path) -> None:
        self._numbers = count()
        self._held, self._go = threading.Event(), threading.Event()
        self.paths = [folder / "0" / "agent.sock", folder / "1" / "agent.sock", folder / "2" / "agent.sock"]
        self.door = Door()
        ways = [Doorway(self.paths[0], 0), Doorway(self.paths[1], 1), Doorway(self.paths[2], 2, self._hold)]
        self.door.open(self, ways)
        self.door.start()

    def admit(self, slot: int | None, pid: int, pidfd: int) -> Admission:
        del slot, pid, pidfd
        return Admission(next(self._numbers), device_file=0, member_file=os.dup(0))

    def loosen(self, number: int) -> None:
        pass

    def dismiss(self, number: int) -> None:
        pass

    def _hold(self, _: int) -> None:
        self._held.set()
        self._go.wait(60)
        raise AttachRefused("was only to hold the door's thread up")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile nobody is heard."""
        with self.connection(2) as connection:
            connection.send(HELLO)
            assert self._held.wait(60)
            yield
            self._go.set()
            assert connection.recv(4096)

    def connection(self, slot: int) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.settimeout(60)
        made.connect(str(self.paths[slot]))
        return made

    def member(self, slot: int) -> socket.socket:
        """One that is let in."""
        connection = self.connection(slot)
        connection.send(HELLO)
        _, files, _, _ = socket.recv_fds(connection, 4096, 2)
        for file in files:
            os.close(file)
        assert len(files) == 2
        return connection

    def comes_in(self, slot: int) -> bool:
        """False: too many others wait for it."""
        try:
            self.member(slot).close()
        except BlockingIOError:
            return False
        return True


def answer(connection: socket.socket) -> bytes:
    """Empty: the connection has ended."""
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


@pytest.fixture
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = House(Path(folder))
        yield made
        made.door.close()


@pytest.mark.parametrize("data", [HELLO, b"anything"], ids=["true", "other"])
def test_a_hello_with_a_descriptor(house: House, lingering: Lingering, data: bytes) -> None:
    connection = house.connection(0)
    with house.held():
        lingering.send(connection, data)
    house.member(1).close()
    assert answer(connection) == b""


@pytest.mark.parametrize("times", [1, 16, 17, 253])
def test_descriptors_that_a_member_sends_along(house: House, lingering: Lingering, times: int) -> None:
    connection = house.member(0)
    with house.held():
        lingering.send(connection, HANDS_OVER, times)
    house.member(1).close()
    # More than there is room for end the connection.
    assert bool(answer(connection)) == (times <= 16)


def test_who_leaves_too_much_waits_and_nobody_else(house: House, lingering: Lingering) -> None:
    first = house.connection(0)
    with house.held():
        lingering.send(first, HELLO)
    left = []
    for _ in range(300):
        left.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
        with contextlib.suppress(OSError):  # the agent does not listen any more
            left[-1].connect(str(house.paths[0]))
            socket.send_fds(left[-1], [HELLO], [0])
    house.member(1).close()
    lingering.end()
    until(lambda: house.comes_in(0), "it goes on")
    for connection in left:
        connection.close()


def test_a_member_that_leaves_too_much_is_heard_later(house: House, lingering: Lingering) -> None:
    member, other = house.member(0), house.connection(0)
    with house.held():
        lingering.send(other, HELLO)
    house.member(1).close()
    for _ in range(4):
        socket.send_fds(member, [HANDS_OVER], [0] * 16)
        assert answer(member)
    member.send(HANDS_OVER)
    assert not wait([member], 0.2)
    house.member(1).close()
    lingering.end()
    assert answer(member)


def test_a_disposal_is_full_until_what_it_waits_for_ends(lingering: Lingering) -> None:
    disposal = Disposal("disposal")
    disposal.close(lingering.socket)
    reading, writing = os.pipe()
    disposal.close(*(os.dup(writing) for _ in range(100)), writing)
    assert disposal.full
    lingering.end()
    until(lambda: not disposal.full, "it goes on")
    disposal.join(time.monotonic() + 60)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""  # nobody has the other end
    os.close(reading)
