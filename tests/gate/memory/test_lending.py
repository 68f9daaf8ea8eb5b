"""An agent divides a device's memory among real processes: an engine, tenants, and what pods have for themselves."""

import errno
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from gate.borrower import BYTES, Borrower
from gate.memory.node_rig import NodeRig
from gate.memory.test_memory import REQUEST
from gate.rig import until

from rowen.node_agent.attach.eviction import kill
from rowen.node_agent.attach.message import MAGIC, REQUEST_MAGIC
from rowen.node_agent.attach.offence import Evict, Reason
from rowen.node_agent.memory import fallback, withheld
from rowen.node_agent.memory.loans import Loans

HANDLES = 32


@pytest.fixture
def rig():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rig = NodeRig(Path(folder) / "n", cpu=max(os.sched_getaffinity(0)), handles=HANDLES)
        yield rig
        rig.close()


def borrower(rig, slot, capacity=HANDLES):
    found = Borrower(rig, slot).ready()
    assert found.ask("open") == capacity
    return found


def fill(member, handles):
    member.ask("want", handles)
    assert member.ask("wait", handles) == 1
    assert member.ask("map", 0, handles) == handles
    member.ask("fill", 0, handles, 1)
    member.ask("use", handles)


def test_an_engine_under_pressure_gets_handles_of_a_tenant_that_stands_still(rig):
    rig.place(None, pool=24)
    rig.place(0, pool=HANDLES)
    engine, tenant = borrower(rig, None), borrower(rig, 0)
    rig.until(lambda pool: rig.member(None, pool).granted >= 2, "the engine has its first headroom")
    tenant.ask("want", HANDLES)
    rig.until(lambda pool: pool.free == 0, "the tenant has the rest")
    held = rig.member(0, rig.sample()).granted
    assert tenant.ask("map", 0, held) == held
    tenant.ask("fill", 0, held, 1)
    engine.ask("busy")
    fill(engine, 16)
    taken = tenant.ask("lost") if engine.ask("idle") == 0 else 0
    assert taken >= held - 16
    rig.until(lambda pool: rig.member(None, pool).target > 16, "headroom is kept ahead of need")
    assert rig.member(None, rig.sample()).bound == 24
    engine.ask("busy")
    rig.until(lambda pool: pool.deficit == 0, "and met when the tenant stands still again")
    rig.until(lambda _: rig.served.lending.owned.online_used_bytes == 16 * BYTES, "it is written down")
    left = (HANDLES - 16) * BYTES
    rig.until(lambda _: rig.served.window.memory[-1].available <= left, "and kept for the report")
    (device,) = rig.node.snapshots()
    assert device.pool is not None
    assert sum(device.pool.model_dump().values()) == HANDLES * BYTES
    assert device.pool.online_used_bytes == 16 * BYTES
    labels = {"node": "n", "device": "cpu1"}
    value = rig.node.metrics.registry.get_sample_value
    assert value("rowen_memory_bytes", {**labels, "owner": "online_used"}) == 16 * BYTES
    assert value("rowen_reclaims_total", labels) >= 1
    assert value("rowen_reclaimed_bytes_total", labels) >= taken * BYTES


def test_nobody_gets_more_than_its_pod_may_have(rig):
    rig.place(None, pool=6)
    rig.place(0, pool=4)
    engine, tenant = borrower(rig, None), borrower(rig, 0)
    rig.until(lambda pool: rig.member(None, pool).bound == 6, "the engine's pod is known")
    engine.ask("want", HANDLES)
    tenant.ask("want", HANDLES)
    rig.until(lambda pool: (rig.member(None, pool).granted, rig.member(0, pool).granted) == (6, 4), "they have it")
    for _ in range(20):
        pool = rig.sample()
        assert (rig.member(None, pool).granted, rig.member(0, pool).granted, pool.free) == (6, 4, HANDLES - 10)


@pytest.mark.parametrize(("fixed", "capacity"), [(0, HANDLES), (10, HANDLES - 10), (HANDLES + 5, 1)])
def test_an_engine_s_arena_is_no_larger_than_what_it_can_ever_get(rig, fixed, capacity):
    rig.place(None, fixed=fixed, pool=2 * HANDLES)
    rig.place(0, pool=2 * HANDLES, fixed=1)
    borrower(rig, None, capacity)
    borrower(rig, 0)
    ((pod, message),) = rig.node.shortages()
    assert (pod.name, "device cpu1" in message) == ("engine", True)
    rig.place(None, fixed=10, pool=HANDLES - 10)
    assert rig.node.shortages() == []


def test_an_engine_of_a_pod_that_is_not_known_has_an_arena_of_the_whole_pool(rig):
    rig.place(None, fixed=10, pool=HANDLES)
    rig.engine_pod = rig.pods[1]
    borrower(rig, None)


def test_processes_of_a_pod_share_what_it_may_have(rig):
    Borrower(rig, None).ready()
    rig.place(0, pool=9)
    pair = [borrower(rig, 0), borrower(rig, 0)]
    for tenant in pair:
        tenant.ask("want", HANDLES)
    rig.until(lambda pool: sorted(member.granted for member in pool.members) == [4, 5], "each has its part")
    pair[0].kill()
    rig.until(lambda pool: [member.granted for member in pool.members] == [9], "what is left has all of it")


def test_a_pod_that_is_not_known_gets_nothing_unless_it_is_the_engine(rig):
    engine, tenant = borrower(rig, None), borrower(rig, 0)
    engine.ask("want", 7)
    tenant.ask("want", 7)
    assert engine.ask("wait", 7) == 1
    for _ in range(20):
        pool = rig.sample()
        assert (rig.member(None, pool).granted, rig.member(0, pool).granted) == (7, 0)
    rig.place(0, pool=5)
    rig.until(lambda pool: rig.member(0, pool).granted == 5, "it is known")


def test_a_process_of_another_pod_than_the_placed_one_is_not_known(rig):
    Borrower(rig, None).ready()
    rig.place(0, pool=5)
    tenant = borrower(rig, 0)
    rig.pods[0], rig.pods[1] = rig.pods[1], rig.pods[0]
    rig.place(0, pool=5)
    tenant.ask("want", 5)
    for _ in range(20):
        assert rig.member(0, rig.sample()).granted == 0


def test_what_pods_have_for_themselves_is_lent_to_nobody(rig):
    engine = Borrower(rig, None).ready()
    rig.place(None, fixed=10)
    rig.place(0, fixed=6, pool=HANDLES)
    tenant = borrower(rig, 0)
    tenant.ask("want", HANDLES)
    rig.until(lambda pool: (pool.fixed, rig.member(0, pool).granted) == (16, 16), "what is left")
    assert tenant.ask("map", 0, 16) == 16
    rig.place(1, fixed=4)
    rig.until(lambda pool: (pool.fixed, rig.member(0, pool).owned) == (20, 12), "a new pod's share was taken")
    assert tenant.ask("lost") == 4
    assert engine.ask("open") == HANDLES - 10
    assert {closing.for_request for closing in rig.served.gate.closings(0)} == {False}
    rig.views.pop(1)
    rig.tell()
    rig.until(lambda pool: pool.fixed == 16, "it is gone")


def test_all_that_an_engine_with_memory_of_its_own_may_use_is_lent_to_nobody(rig, monkeypatch):
    engine = Borrower(rig, None).ready()
    rig.place(None, fixed=4, pool=12)
    rig.place(0, pool=HANDLES)
    tenant = borrower(rig, 0)
    tenant.ask("want", HANDLES)
    rig.until(
        lambda pool: (pool.fixed, rig.member(0, pool).granted) == (4, 28), "the engine may still ask for its part"
    )
    assert tenant.ask("map", 0, 28) == 28
    monkeypatch.setattr(fallback, "PATIENCE_SECONDS", 0.0)
    rig.until(lambda pool: (pool.fixed, rig.member(0, pool).owned) == (16, 16), "it has not")
    assert tenant.ask("lost") == 12
    rig.node.close()
    rig.start()
    rig.tell()
    rig.until(lambda pool: pool.fixed == 16, "the next agent sees that, too")
    assert engine.ask("open") == HANDLES - 4
    rig.until(lambda pool: pool.fixed == 4, "its part is the pool's")


def test_an_engine_that_has_its_part_keeps_nothing_beside_it_over_agents(rig, monkeypatch):
    monkeypatch.setattr(fallback, "PATIENCE_SECONDS", 0.0)
    engine = borrower(rig, None)
    rig.place(None, fixed=4, pool=12)
    rig.until(lambda pool: rig.member(None, pool).bound == 12, "its pod is known")
    fill(engine, 3)
    rig.node.close()
    rig.start()
    rig.tell()
    until(lambda: rig.sample().fixed == 4 and len(rig.served.gate.loans.borrowers) == 1, "it has come over")
    for _ in range(20):
        assert rig.sample().fixed == 4


def test_the_next_agent_says_the_same(rig):
    rig.place(None, fixed=4, pool=12)
    rig.place(0, pool=10)
    engine, tenant = borrower(rig, None, HANDLES - 4), borrower(rig, 0)
    rig.until(lambda pool: rig.member(0, pool) and rig.member(None, pool).bound == 12, "both are known")
    fill(engine, 6)
    fill(tenant, 8)
    for _ in range(2):
        rig.node.close()
        rig.start()
        rig.sample()
        until(lambda: len(rig.served.gate.loans.borrowers) == 2, "both have come over")
        rig.tell()
        rig.sample()
        pool = rig.sample()
        assert (rig.member(None, pool).bound, rig.member(None, pool).held, rig.member(0, pool).held) == (12, 6, 8)
        assert rig.member(None, pool).target > 6
    assert (engine.ask("sum", 0, 6), tenant.ask("sum", 0, 8)) == (6, 8)
    tenant.ask("want", 10)
    rig.until(lambda pool: rig.member(0, pool).granted == 10, "up to its limit")
    engine.ask("want", 11)
    rig.until(lambda pool: rig.member(None, pool).granted >= 11, "up to its bound")


def test_who_keeps_memory_that_it_has_to_give_back_is_evicted(rig):
    Borrower(rig, None).ready()
    rig.place(0, pool=8)
    tenant = borrower(rig, 0)
    rig.until(lambda pool: bool(pool.members), "it is there")
    fill(tenant, 8)
    rig.place(0, pool=3)
    rig.until(lambda pool: rig.member(0, pool).granted == 3, "its limit is lowered")
    found = []
    rig.until(lambda _: found.extend(rig.node.notices()) or bool(found), "it is stubborn")
    ((notice),) = found
    assert isinstance(notice.decision, Evict)
    assert (notice.decision.reason, notice.pod.uid) == (Reason.KEPT_MEMORY, rig.pods[0].uid)
    assert "give handles back" in notice.decision.message
    assert rig.node.notices() == []
    kill(notice.pod)
    tenant.process.wait(20)
    rig.until(lambda pool: (pool.free, pool.members) == (HANDLES, ()), "everything is back")


def withholders(rig):
    """Pods that are to be evicted for that, as found until there is one."""
    found = []

    def look(_):
        found.extend(notice for notice in rig.node.notices() if notice.decision.reason is Reason.WITHHELD_MEMORY)
        return bool(found)

    rig.until(look, "it does not hand over")
    return found


def test_who_hands_over_what_the_agent_cannot_take_is_evicted_and_all_is_free(rig, monkeypatch):
    Borrower(rig, None).ready()
    rig.place(0, pool=8)
    tenant = borrower(rig, 0)
    rig.until(lambda pool: bool(pool.members), "it is there")
    fill(tenant, 8)
    rig.node.close()
    monkeypatch.setattr(withheld, "PATIENCE_SECONDS", 0.3)

    def refuse(*_):
        raise OSError(errno.EPROTO, "handles have another size")

    monkeypatch.setattr(Loans, "adopt", refuse)
    rig.start()
    rig.tell()
    (notice,) = withholders(rig)
    assert isinstance(notice.decision, Evict)
    assert notice.pod.uid == rig.pods[0].uid
    assert rig.sample().free == HANDLES - 8
    kill(notice.pod)
    tenant.process.wait(20)
    rig.until(lambda pool: pool.free == HANDLES, "everything is back")


def test_who_hands_over_is_not_evicted(rig, monkeypatch):
    Borrower(rig, None).ready()
    rig.place(0, pool=8)
    tenant = borrower(rig, 0)
    rig.until(lambda pool: bool(pool.members), "it is there")
    fill(tenant, 8)
    rig.node.close()
    rig.start()
    rig.tell()
    rig.until(lambda pool: bool(pool.members), "it has come over")
    # The pool has it a moment before the door.
    until(lambda: not rig.node._door.withholding(rig.served.gate), "the door knows")
    monkeypatch.setattr(withheld, "PATIENCE_SECONDS", 0.0)
    for _ in range(20):
        rig.sample()
        assert rig.node.notices() == []
    assert tenant.ask("sum", 0, 8) == 8


WITHHOLDER = """
import os, socket, sys, time
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
connection.send(bytes.fromhex(sys.argv[2]))
files = socket.recv_fds(connection, 4096, 4)
if sys.argv[3]:
    rubbish = [os.memfd_create("rubbish") for _ in range(2)]
    socket.send_fds(connection, [bytes.fromhex(sys.argv[3])], rubbish)
    connection.recv(4096)
print("in", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("says", ["nothing", "rubbish"])
def test_who_says_that_it_has_memory_and_hands_none_over_is_evicted(rig, monkeypatch, says):
    Borrower(rig, None).ready()
    rig.place(0, pool=8)
    monkeypatch.setattr(withheld, "PATIENCE_SECONDS", 0.3)
    hello = struct.pack("<QIIQ", MAGIC, 2, 24, 1)
    hand_over = REQUEST.pack(REQUEST_MAGIC, 2, REQUEST.size, 0, 2, 0) if says == "rubbish" else b""
    command = [sys.executable, "-c", WITHHOLDER, str(rig.socket(0)), hello.hex(), hand_over.hex()]
    with subprocess.Popen(command, preexec_fn=rig.entering(0), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"in\n"
            (notice,) = withholders(rig)
            assert notice.pod.uid == rig.pods[0].uid
            assert kill(notice.pod)
            assert process.wait(20) == -9
        finally:
            process.kill()
