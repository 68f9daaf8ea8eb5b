"""Strangers at a door's sockets: how many there may be, how long, and what becomes of each."""

import contextlib
import errno
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from descriptors import open_descriptors
from gate.lingering import Lingering
from gate.rig import until
from node_agent.riding import connected, has_ended, is_quiet
from structlog.testing import capture_logs

from rowen.node_agent.attach import strangers
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.attach.strangers import Strangers

LONGEST = 100


def refuse(connection: socket.socket, number: int, reason: str) -> None:
    connection.send(f"{errno.errorcode[number]} {reason}".encode())


class Entry:
    """A door with two sockets: who says hello there is answered how much it has said, unless `error` is set."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / "0/agent.sock", folder / "1/agent.sock"]
        self.error: Exception | None = None
        self.disposals: list[Disposal] = []
        self._heard: list[tuple[socket.socket, Disposal]] = []
        self._loop = Loop("entry", lambda: self.strangers.send_away_the_silent())
        self.strangers = Strangers(self._loop, most=3, longest=LONGEST, wish="see it", refuse=refuse)
        self.strangers.open(dict.fromkeys(self.paths, self._admit))
        self._loop.start()

    def _admit(self, connection: socket.socket, disposal: Disposal, data: bytes) -> None:
        self.disposals.append(disposal)
        self._heard.append((connection, disposal))
        if self.error:
            raise self.error
        connection.send(str(len(data)).encode())

    def comes(self, path: int = 0) -> socket.socket:
        return connected(self.paths[path])

    def says(self, data: bytes, path: int = 0) -> str:
        """What somebody is answered."""
        with self.comes(path) as connection:
            connection.send(data)
            return connection.recv(4096).decode()

    def has_room(self) -> bool:
        """Whether somebody who comes now is heard."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            return self.says(b"hello") == "5"
        return False

    def close(self) -> None:
        self._loop.end()
        self.strangers.close()
        for connection, disposal in self._heard:
            if connection.fileno() >= 0:  # it is still the door's
                disposal.close(connection)
        self.strangers.join()


@pytest.fixture
def entry() -> Iterator[Entry]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = Entry(Path(folder))
        yield made
        made.close()


@pytest.mark.parametrize(("said", "heard"), [(1, 1), (LONGEST, LONGEST), (10 * LONGEST, LONGEST + 1)])
def test_a_hello_is_read_and_a_byte_more_than_the_longest_at_most(entry, said, heard):
    assert entry.says(bytes(said)) == str(heard)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ValueError("no hello"), "EPROTO no hello"),
        (AttachRefused("not you"), "EPERM not you"),
        (ProcessLookupError("it is gone"), "EPERM it is gone"),
    ],
)
def test_who_is_not_admitted_is_told_why_and_the_next_one_is_heard(entry, error, answer):
    entry.error = error
    with entry.comes() as connection:
        connection.send(b"hello")
        assert connection.recv(4096).decode() == answer
        assert has_ended(connection)
    entry.error = None
    assert entry.says(b"hello") == "5"


def test_what_nobody_has_thought_of_costs_nobody_else_anything(entry):
    entry.error = RuntimeError("unforeseen")
    with entry.comes() as connection, capture_logs() as logs:
        connection.send(b"hello")
        until(lambda: bool(logs))
    assert (logs[0]["log_level"], logs[0]["thread"]) == ("error", "entry")
    entry.error = None
    assert entry.says(b"hello") == "5"


def test_who_says_nothing_is_sent_away_without_a_word_but_not_at_once(entry):
    before = time.monotonic()
    with entry.comes() as connection:
        assert connection.recv(4096) == b""
    assert time.monotonic() - before > 1.9


def test_who_hangs_up_or_sends_descriptors_is_no_stranger_any_more(entry):
    for _ in range(4):
        with entry.comes() as connection:
            socket.send_fds(connection, [b"hello"], [0])
            assert has_ended(connection)
    assert entry.says(b"hello") == "5"
    for _ in range(10):
        entry.comes().close()
    until(entry.has_room)
    assert len(entry.disposals) == 2


def test_at_one_socket_there_are_only_so_many_at_once(entry, monkeypatch):
    monkeypatch.setattr(strangers, "_HELLO_SECONDS", 60.0)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(entry.comes()) for _ in range(3)]
        one_more = stack.enter_context(entry.comes())
        assert one_more.recv(4096) == b"EAGAIN too many processes see it at once"
        assert has_ended(one_more)
        assert entry.says(b"hello", path=1) == "5"
        silent[0].send(b"hi")
        assert silent[0].recv(4096) == b"2"
        assert entry.says(b"hello") == "5"


def test_without_descriptors_they_wait_until_there_are_some(entry):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, capture_logs() as logs:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            connection.connect(str(entry.paths[0]))
            connection.send(b"hello")
            until(lambda: len(logs) > 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert connection.recv(4096) == b"5"
    assert {log["event"] for log in logs} == {"no descriptors left for processes that want to see it"}


def test_where_too_much_is_left_to_be_closed_nobody_comes_in_until_it_is(entry):
    lingering = Lingering()
    assert entry.says(b"hello") == "5"
    entry.disposals[0].close(lingering.socket, *[socket.socket() for _ in range(70)])
    with entry.comes() as connection:
        connection.send(b"hello")
        assert entry.says(b"hello", path=1) == "5"
        assert is_quiet(connection)
        lingering.end()
        assert connection.recv(4096) == b"5"


def test_where_there_can_be_no_thread_to_close_it_is_tried_again(entry, monkeypatch):
    assert entry.says(b"hello") == "5"

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        entry.disposals[0].close(*[socket.socket() for _ in range(70)])
        connection = entry.comes()
        connection.send(b"hello")
        assert is_quiet(connection)
    with connection:
        assert connection.recv(4096) == b"5"


def test_of_several_sockets_none_is_listened_on_where_one_cannot_be(entry, tmp_path):
    (tmp_path / "file").touch()
    before = open_descriptors()
    with pytest.raises(OSError):
        entry.strangers.open(dict.fromkeys([tmp_path / "0.sock", tmp_path / "file/1.sock"], lambda *_: None))
    assert open_descriptors() == before


def test_nothing_is_left_open(monkeypatch):
    monkeypatch.setattr(strangers, "_HELLO_SECONDS", 0.0)
    before = open_descriptors()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        entry = Entry(Path(folder))
        first = entry.comes()
        assert has_ended(first)
        monkeypatch.setattr(strangers, "_HELLO_SECONDS", 60.0)
        second = entry.comes()
        assert entry.says(b"hello", path=1) == "5"
        entry.close()
        assert has_ended(second)
        first.close()
        second.close()
    assert open_descriptors() == before
