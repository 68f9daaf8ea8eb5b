"""A tenant's ledger, which travels with its arena over the agent's socket, and what the device's pool takes by it."""

import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gate.borrower import BYTES
from gate.memory.test_memory import HANDLES, REQUEST, a_tenant, an_engine, come_back, number_of, status_of
from gate.rig import Rig, until

from rowen.node_agent.attach import message, teller
from rowen.node_agent.attach.message import MAGIC, REQUEST_MAGIC
from rowen.node_agent.devices.library import agent_library
from rowen.node_agent.memory.ledgers import OWNERS, Ledgers
from rowen.runtime.memory.native_arena import NativeArena

LOWER, UPPER = 0b000000111111, 0b111111000000
"""Handles 0 to 5 and 6 to 11, a bit each."""


@pytest.fixture
def pool_rig(make_rig):
    return make_rig(memory=(HANDLES, BYTES))


def presses(engine, handles):
    """The engine lacks so many handles, and gets them while offline work stands still."""
    engine.ask("want", handles)
    engine.ask("busy")
    assert engine.ask("wait", handles) == 1
    engine.ask("idle")


def a_telling_tenant(rig):
    """Holds all handles; losing the upper half costs more."""
    tenant = a_tenant(rig, 0, HANDLES)
    assert tenant.ask("has_ledger") == 1
    tenant.ask("note", 1, 10, 0, 6)
    tenant.ask("note", 2, 10**6, 6, 6)
    return tenant


def next_agent(rig, *borrowers):
    rig.agent.close()
    rig.serve().renew(time.monotonic() + 3600)
    come_back(rig, *borrowers)


def test_the_dear_owner_keeps_its_handles_and_the_cheap_one_loses_them(pool_rig):
    engine, tenant = an_engine(pool_rig), a_telling_tenant(pool_rig)
    presses(engine, 6)
    assert tenant.ask("which") == LOWER
    # Handle by handle the price has changed: what lost one handle loses the rest for nothing.
    presses(engine, 7)
    assert tenant.ask("which") == 0b100000000000


def test_the_member_that_loses_less_loses_it(pool_rig):
    engine = an_engine(pool_rig)
    cheap, dear = (a_tenant(pool_rig, slot, 6) for slot in range(2))
    cheap.ask("note", 1, 10, 0, 6)
    dear.ask("note", 1, 11, 0, 6)
    presses(engine, 6)
    assert (cheap.ask("lost"), dear.ask("lost")) == (6, 0)


def test_the_next_agent_goes_on_with_the_ledger(pool_rig):
    engine, tenant = an_engine(pool_rig), a_telling_tenant(pool_rig)
    for _ in range(2):
        next_agent(pool_rig, engine, tenant)
    presses(engine, 3)
    assert tenant.ask("which") & UPPER == 0
    # It is still the one that the process writes.
    tenant.ask("note", 2, 1, 6, 6)
    tenant.ask("note", 1, 10**6, 0, 6)
    presses(engine, 6)
    assert tenant.ask("which") & LOWER == 0


def test_an_engine_has_none(pool_rig):
    assert an_engine(pool_rig).ask("has_ledger") == 0


def target_of(link):
    """Of a descriptor; the door's thread may close it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return str(link.readlink())
    return ""


def test_of_ended_processes_nothing_is_left(pool_rig):
    def ours():
        return sum(target_of(link).startswith("/memfd:rowen") for link in Path("/proc/self/fd").iterdir())

    engine = an_engine(pool_rig)
    before = ours()
    a_telling_tenant(pool_rig).kill()
    until(lambda: pool_rig.device.loans.borrowers.keys() == {number_of(pool_rig, engine)}, "the tenant is forgotten")
    assert engine.ask("grant") == 0
    until(lambda: ours() == before, "its files are closed")


@pytest.fixture
def earlier_agents(monkeypatch) -> Callable[[], None]:
    """Makes agents those of a release that knows no ledgers: they read two descriptors and give two."""

    def install() -> None:
        monkeypatch.setattr(teller, "_MOST_FILES", 2)
        monkeypatch.setattr(message, "_KEEPS_LEDGER", 0)

    return install


def test_a_tenant_goes_to_an_earlier_agent_and_back_with_its_ledger(pool_rig, earlier_agents, monkeypatch):
    engine, tenant = an_engine(pool_rig), a_telling_tenant(pool_rig)
    earlier_agents()
    next_agent(pool_rig, engine, tenant)
    assert status_of(pool_rig, tenant).held == HANDLES
    presses(engine, 2)
    assert tenant.ask("which") == 0b110000000000
    monkeypatch.undo()
    next_agent(pool_rig, engine, tenant)
    presses(engine, 4)
    assert tenant.ask("which") & UPPER == 0


def test_a_tenant_of_an_earlier_agent_has_its_arena_and_no_ledger(pool_rig, earlier_agents, monkeypatch):
    earlier_agents()
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 6)
    assert tenant.ask("has_ledger") == 0
    monkeypatch.undo()
    next_agent(pool_rig, engine, tenant)
    other = a_tenant(pool_rig, 1, 6)
    other.ask("note", 1, 10**9, 0, 6)
    presses(engine, 6)
    assert (tenant.ask("lost"), other.ask("lost")) == (0, 6)


class Raw:
    """A tenant that is no process of its own: what it sends is the test's."""

    def __init__(self, rig: Rig, *, holds_memory: bool = False) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(20)
        self._connection.connect(str(rig.socket(0)))
        self._connection.send(struct.pack("<QIIQ", MAGIC, 2, 24, int(holds_memory)))
        _, files, _, _ = socket.recv_fds(self._connection, 4096, 4)
        for file in files:
            os.close(file)

    def ask(self, features: int, kind: int, files: list[int]) -> list[int]:
        """The descriptors that come with the answer."""
        data = REQUEST.pack(REQUEST_MAGIC, 2, REQUEST.size, features, kind, 0)
        socket.send_fds(self._connection, [data], files)
        answer, got, _, _ = socket.recv_fds(self._connection, 4096, 4)
        assert answer[24:28] == bytes(4), answer[28:]
        return got

    def close(self) -> None:
        self._connection.close()


def test_a_library_that_knows_no_ledger_gets_two_files(pool_rig):
    raw = Raw(pool_rig)
    files = raw.ask(0, 1, [])
    assert len(files) == 2
    for file in files:
        os.close(file)
    raw.close()


def sealed(size: int, content: bytes = b"", seals: int = 0b111) -> int:
    file = os.memfd_create("ledger", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    os.pwrite(file, content[:size], 0)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


def reopened(file: int, mode: int) -> int:
    return os.open(f"/proc/self/fd/{file}", mode)


WRONG: dict[str, Callable[[int, int, bytes], int]] = {
    "too short": lambda file, size, content: sealed(size - 64, content),
    "not sealed": lambda file, size, content: sealed(size, content, seals=0),
    "may shrink": lambda file, size, content: sealed(size, content, seals=0b101),
    "empty": lambda file, size, content: sealed(0),
    "no header": lambda file, size, content: sealed(size),
    "of another arena": lambda file, size, content: agent_library().rowen_ledger_make(HANDLES * 10, OWNERS * 10),
    "may not be read": lambda file, size, content: reopened(file, os.O_WRONLY),
    "a path": lambda file, size, content: reopened(file, os.O_PATH),
    "a pipe": lambda file, size, content: os.pipe()[0],
    "a device": lambda file, size, content: os.open("/dev/zero", os.O_RDWR),
    "a directory": lambda file, size, content: os.open("/", os.O_RDONLY),
}


@pytest.fixture
def holder(pool_rig) -> Iterator[tuple[Rig, list[int], NativeArena]]:
    """A raw tenant that holds every handle, and has told of a dear upper half; its agent is gone then."""
    raw = Raw(pool_rig)
    files = raw.ask(1, 1, [])
    assert len(files) == 3
    arena = NativeArena(agent_library(), *files[:2])
    pool_rig.device.loans.share(next(iter(pool_rig.device.loans.borrowers)), 0, HANDLES)
    arena.want(HANDLES)
    assert arena.wait(HANDLES, 15)
    assert arena.map(range(HANDLES)) == HANDLES
    raw.close()
    yield pool_rig, files, arena
    for file in files:
        os.close(file)


def adopts(monkeypatch) -> list[bool]:
    """Whether each ledger that is handed over from now on is one."""
    found = []
    adopt = Ledgers.adopt

    def note(self, member, capacity, descriptor):
        try:
            adopt(self, member, capacity, descriptor)
        except (OSError, ValueError):
            found.append(False)
            raise
        found.append(True)

    monkeypatch.setattr(Ledgers, "adopt", note)
    return found


@pytest.mark.parametrize("what", [None, *WRONG])
def test_a_wrong_ledger_costs_the_ledger_and_not_the_arena(holder, what, monkeypatch):
    rig, files, arena = holder
    adopted = adopts(monkeypatch)
    rig.agent.close()
    size = os.fstat(files[2]).st_size
    wrong = WRONG[what](files[2], size, os.pread(files[2], size, 0)) if what else os.dup(files[2])
    rig.serve().renew(time.monotonic() + 3600)
    raw = Raw(rig, holds_memory=True)
    assert raw.ask(1, 2, [*files[:2], wrong]) == []
    os.close(wrong)
    assert adopted == [what is None]
    assert rig.device.loans.status().members[0].held == HANDLES
    engine = an_engine(rig)
    presses(engine, 4)
    assert len(arena.lost()) == 4
    raw.close()
