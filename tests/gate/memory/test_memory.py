"""Memory that changes owner between real processes, which got it through the agent's socket."""

import os
import random
import signal
import socket
import struct
import threading
import time

import pytest
from descriptors import open_descriptors
from gate.borrower import BYTES, Borrower
from gate.rig import freeze, until

from rowen.node_agent.attach.message import MAGIC, REQUEST_MAGIC
from rowen.node_agent.devices.counts import Offence
from rowen.node_agent.memory.loans import Borrower as Known
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind

HANDLES = 12


@pytest.fixture
def pool_rig(make_rig):
    return make_rig(memory=(HANDLES, BYTES))


def number_of(rig, borrower):
    loans = rig.device.loans
    return next(number for number, known in loans.borrowers.items() if known.pid == borrower.process.pid)


def status_of(rig, borrower):
    return rig.device.loans.status().of(number_of(rig, borrower))


def really(rig):
    return sum(member.really_held for member in rig.device.loans.status().members)


def come_back(rig, *borrowers):
    pids = {borrower.process.pid for borrower in borrowers}
    until(lambda: {known.pid for known in rig.device.loans.borrowers.values()} == pids, "all have handed over")


def an_engine(rig):
    engine = Borrower(rig, None).ready()
    assert engine.ask("open") == HANDLES
    return engine


def a_tenant(rig, slot, holds):
    tenant = Borrower(rig, slot).ready()
    assert tenant.ask("open") == HANDLES
    rig.device.loans.share(number_of(rig, tenant), 0, HANDLES)
    tenant.ask("want", holds)
    assert tenant.ask("wait", holds) == 1
    assert tenant.ask("map", 0, holds) == holds
    tenant.ask("fill", 0, holds, 1)
    return tenant


def test_handles_change_owner_when_the_engine_is_busy_and_wants_more(pool_rig):
    engine = an_engine(pool_rig)
    tenants = [a_tenant(pool_rig, slot, 6) for slot in range(2)]
    assert pool_rig.device.loans.status().free == 0
    engine.ask("want", 8)
    assert engine.ask("map", 0, 8) == 0
    assert really(pool_rig) == 12
    engine.ask("busy")
    assert engine.ask("wait", 8) == 1
    assert pool_rig.device.closings(0)[-1].acknowledged is not None
    assert engine.ask("map", 0, 8) == 8
    assert (engine.ask("sum", 0, 8), really(pool_rig)) == (0, 12)
    engine.ask("fill", 0, 8, 1)
    engine.ask("idle")
    assert sum(tenant.ask("lost") for tenant in tenants) == 8
    for tenant in tenants:
        tenant.ask("fill", 0, 6, 7)
    assert engine.ask("sum", 0, 8) == 8
    until(lambda: really(pool_rig) == 12)


def test_nothing_is_taken_while_a_tenant_runs_or_from_whom_the_gate_is_open(pool_rig):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 12)
    engine.ask("want", 4)
    tenant.ask("fill", 0, 12, 3)
    time.sleep(0.5)
    assert (tenant.ask("lost"), status_of(pool_rig, tenant).taken) == (0, 0)
    assert pool_rig.device.loans.status().deficit == 4


def test_a_tenant_that_the_kernel_has_frozen_loses_handles_too(make_rig):
    rig = make_rig(memory=(HANDLES, BYTES), backstop=0.05)
    engine, tenant = an_engine(rig), a_tenant(rig, 0, 12)
    freeze(tenant.process.pid)
    engine.ask("want", 5)
    engine.ask("busy")
    assert engine.ask("wait", 5) == 1
    until(rig.pods[0].frozen, "the kernel says so")
    assert engine.ask("map", 0, 5) == 5
    engine.ask("fill", 0, 5, 9)
    engine.ask("idle")
    os.kill(tenant.process.pid, signal.SIGCONT)
    tenant.ask("fill", 0, 12, 7)
    assert tenant.ask("lost") == 5
    until(lambda: really(rig) == 12, "what it filled since is set apart")
    assert engine.ask("sum", 0, 5) == 45


# A library of its own: it acknowledges each close at first. Then it takes that back, or is a process that has come
# behind the closed gate, and says nothing more.
LIAR = """
    import socket, struct, sys
    def attach():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(os.environ["SOCKET"])
        connection.send(bytes.fromhex(os.environ["HELLO"]))
        device, member = socket.recv_fds(connection, 4096, 2)[1]
        member = mmap.mmap(member, 4096)
        member[68:72] = struct.pack("<i", os.getpid())
        return connection, mmap.mmap(device, 4096, prot=mmap.PROT_READ), member
    if os.environ["LIES"] == "withdraws":
        connection, device, member = attach()
        _counts[0] = 1
        while not _counts[8]:
            if device[64] & 1:
                member[64:68] = device[64:68]
            time.sleep(0.01)
        member[64:68] = bytes(4)
    else:
        _counts[0] = 1
        while not _counts[8]:
            time.sleep(0.01)
        connection, device, member = attach()
    _counts[0] = 2
    time.sleep(3600)
"""


@pytest.mark.parametrize("lies", ["withdraws", "comes"])
def test_who_takes_an_acknowledgement_back_or_comes_without_one_keeps_no_memory_from_the_engine(make_rig, lies):
    rig = make_rig(memory=(HANDLES, BYTES), backstop=5.0 if lies == "withdraws" else 0.05)
    engine, tenant = an_engine(rig), a_tenant(rig, 1, 12)
    hello = struct.pack("<QIIQ", MAGIC, 2, 24, 0).hex()
    liar = rig.tenant(LIAR, LD_PRELOAD="", SOCKET=str(rig.socket(0)), HELLO=hello, LIES=lies)
    until(lambda: liar.counts() == [1], "it is there")
    engine.ask("busy")
    rig.acknowledged()
    before = rig.device.counts().tenants[0]
    liar.tell()
    # It may be stopped before it can say so.
    until(lambda: liar.counts() == [2] or rig.pods[0].frozen(), "it lies")
    engine.ask("want", 5)
    assert engine.ask("wait", 5) == 1
    until(rig.pods[0].frozen, "the kernel has stopped it")
    after = rig.device.counts().tenants[0]
    assert after.backstops == before.backstops + 1
    if lies == "withdraws":
        assert (after.offence, after.offences) == (Offence.UNACKNOWLEDGED, before.offences + 1)
        assert after.offender == liar.process.pid
    engine.ask("idle")
    until(lambda: not rig.pods[0].frozen(), "it is let go")
    assert tenant.ask("lost") == 5


def test_killed_processes_give_back_everything(pool_rig):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 7)
    engine.ask("want", 5)
    assert engine.ask("wait", 5) == 1
    assert engine.ask("map", 0, 5) == 5
    tenant.kill()
    until(lambda: pool_rig.device.loans.status().free == 7)
    engine.kill()
    until(lambda: pool_rig.device.loans.status().free == 12)
    assert pool_rig.device.loans.borrowers == {}


def test_nobody_at_the_door_waits_until_a_member_that_has_gone_is_free(pool_rig, monkeypatch):
    engine = an_engine(pool_rig)
    may_free, dismiss = threading.Event(), Pool.dismiss
    monkeypatch.setattr(Pool, "dismiss", lambda pool, number: may_free.wait(60) and dismiss(pool, number))
    a_tenant(pool_rig, 0, 7).kill()
    other = Borrower(pool_rig, 1).ready()
    assert other.ask("open") == HANDLES
    come_back(pool_rig, engine, other)
    assert pool_rig.device.loans.status().free == 5
    may_free.set()
    until(lambda: pool_rig.device.loans.status().free == 12)


def test_the_next_agent_goes_on_with_the_memory_of_all(pool_rig):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 7)
    engine.ask("want", 5)
    assert engine.ask("wait", 5) == 1
    assert engine.ask("map", 0, 5) == 5
    engine.ask("fill", 0, 5, 2)
    for _ in range(3):
        pool_rig.agent.close()
        pool_rig.serve().renew(time.monotonic() + 3600)
        assert pool_rig.device.loans.status().free == 0
        come_back(pool_rig, engine, tenant)
        assert (status_of(pool_rig, engine).held, status_of(pool_rig, tenant).held) == (5, 7)
        assert (pool_rig.device.loans.status().free, really(pool_rig)) == (0, 12)
        assert [(engine.ask("sum", 0, 5)), tenant.ask("sum", 0, 7)] == [10, 7]
    engine.ask("want", 9)
    engine.ask("busy")
    assert engine.ask("wait", 9) == 1
    engine.ask("idle")
    assert tenant.ask("lost") == 4


def test_an_engine_without_an_agent_takes_what_it_needs_and_keeps_it(pool_rig):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 7)
    engine.ask("want", 5)
    assert engine.ask("wait", 5) == 1
    assert engine.ask("map", 0, 5) == 5
    pool_rig.device.renew(time.monotonic() + 1)
    pool_rig.agent.close()
    # Beyond the pool, and what is asked for before and after the lease has run out.
    for most in (8, 10):
        engine.ask("want", most)
        assert engine.ask("wait", most) == 1
        assert engine.ask("grant") == most
    assert engine.ask("map", 5, 5) == 5
    engine.ask("fill", 0, 10, 2)
    assert engine.ask("map", 10, 2) == 0
    pool_rig.serve().renew(time.monotonic() + 3600)
    come_back(pool_rig, engine, tenant)
    until(lambda: (status_of(pool_rig, tenant).taken, really(pool_rig)) == (5, 12), "the tenant has given way")
    assert (status_of(pool_rig, engine).granted, engine.ask("sum", 0, 10)) == (10, 20)
    assert tenant.ask("lost") == 5
    engine.ask("want", 12)
    engine.ask("busy")
    assert engine.ask("wait", 12) == 1
    engine.ask("idle")
    assert tenant.ask("lost") == 2


def test_while_the_lease_runs_an_engine_waits_for_the_next_agent(pool_rig):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 7)
    engine.ask("want", 9)
    assert engine.ask("wait", 5) == 1
    pool_rig.agent.close()
    time.sleep(1)
    assert engine.ask("grant") == 5
    assert engine.ask("map", 0, 9) == 5
    pool_rig.serve().renew(time.monotonic() + 3600)
    # Else nothing would be taken once the gate has opened.
    engine.ask("busy")
    assert engine.ask("wait", 9) == 1
    engine.ask("idle")
    assert tenant.ask("lost") == 4


def test_an_engine_that_an_agent_refuses_serves_on_with_what_it_was_granted(pool_rig, monkeypatch):
    engine, tenant = an_engine(pool_rig), a_tenant(pool_rig, 0, 7)
    engine.ask("want", 5)
    assert engine.ask("wait", 5) == 1
    assert engine.ask("map", 0, 4) == 4
    refused, adopt = [], Pool.adopt

    def watched(pool, kind, *arguments):
        try:
            return adopt(pool, kind, *arguments)
        except OSError:
            refused.append(kind)
            raise

    monkeypatch.setattr(Pool, "adopt", watched)
    pool_rig.memory = (HANDLES // 2, 2 * BYTES)
    # Who hands over to the second has heard the answer of the first.
    for count in (1, 2):
        pool_rig.agent.close()
        pool_rig.serve().renew(time.monotonic() + 3600)
        until(lambda count=count: [refused.count(kind) for kind in Kind] == [count, count], "both are refused")
    assert engine.ask("grant") == 5
    assert engine.ask("map", 4, 1) == 1
    assert pool_rig.device.loans.status().free == 0, "what it has is lent to nobody"
    assert tenant.ask("grant") == 0


def test_processes_of_a_pod_have_so_many_arenas_and_no_more(pool_rig, monkeypatch):
    monkeypatch.setattr(Pool, "name", lambda *_: None)
    loans = pool_rig.device.loans
    for pid in range(12):
        loans.lend(Known(0, pid), 1, keeps_ledger=False)
    with pytest.raises(OSError, match="at most 12 arenas"):
        loans.lend(Known(0, 12), 1, keeps_ledger=False)
    for slot, pid in ((1, 13), (None, 14)):
        loans.lend(Known(slot, pid), 1, keeps_ledger=False)
    loans.take_back(1)
    loans.lend(Known(0, 12), 1, keeps_ledger=False)


def test_children_have_no_part_in_it_and_may_have_their_own(pool_rig):
    an_engine(pool_rig)
    tenant = a_tenant(pool_rig, 0, 4)
    assert tenant.ask("child", 0) == -signal.SIGSEGV
    assert tenant.ask("child_opens") == 0
    assert tenant.ask("sum", 0, 4) == 4
    until(lambda: len(pool_rig.device.loans.borrowers) == 2)


def test_memory_is_asked_for_once_and_within_bounds(pool_rig):
    engine = Borrower(pool_rig, None).ready()
    assert engine.ask("open", HANDLES + 1) == 22
    assert engine.ask("open", 3) == 3
    assert engine.ask("open", 3) == 17


def test_a_device_without_a_pool_gives_none(rig):
    engine, tenant = Borrower(rig, None).ready(), Borrower(rig, 0)
    assert (engine.ask("open"), tenant.ready().ask("open")) == (-1, -1)


REQUEST = struct.Struct("<QIIQII")


def test_a_member_that_says_anything_else_is_answered_and_stays(pool_rig):
    """Fuzzed: whatever it sends, with whatever descriptors, is refused with words; then it still gets its memory."""
    generator = random.Random(3)
    before = len(open_descriptors())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(20)
        connection.connect(str(pool_rig.socket(None)))
        connection.send(struct.pack("<QIIQ", MAGIC, 2, 24, 0))
        _, files, _, _ = socket.recv_fds(connection, 4096, 2)
        good = [REQUEST_MAGIC, 2, REQUEST.size, 0, 1, 0]
        wrong = [(0, MAGIC), (1, 3), (2, 31), (4, 0), (4, 3), (4, 2), (5, HANDLES + 1), (5, 2**32 - 1)]
        messages = [REQUEST.pack(*good[:index], value, *good[index + 1 :]) for index, value in wrong]
        messages += [REQUEST.pack(*good)[:-1], REQUEST.pack(*good) + b"x", b"\0", bytes(8192)]
        messages += [generator.randbytes(generator.randrange(1, 200)) for _ in range(200)]
        handing_over = REQUEST.pack(REQUEST_MAGIC, 2, REQUEST.size, 0, 2, 0)
        for message in [*messages, *[handing_over] * 3]:
            sent = generator.choice([[], [0], [0, 1], [0, 1, 2], files])
            socket.send_fds(connection, [message], sent)
            answer, got, _, _ = socket.recv_fds(connection, 4096, 2)
            assert int.from_bytes(answer[24:28], "little", signed=True) < 0
            assert answer[28:].rstrip(b"\0")
            assert got == []
        connection.send(REQUEST.pack(*good))
        answer, got, _, _ = socket.recv_fds(connection, 4096, 2)
        assert (answer[24:28], len(got)) == (bytes(4), 2)
        for file in (*files, *got):
            os.close(file)
    # The pool keeps its own two of the arena; the device two of the member.
    until(lambda: len(open_descriptors()) <= before + 8, "nothing is left behind")
