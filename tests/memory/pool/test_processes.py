"""Memory changes owner while real processes work on it."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from memory.members import Process, admit, held_bytes

from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind

BYTES = 65536


def memory_of(member: Process) -> int:
    """Bytes of shared memory that the process has in its page tables."""
    for line in Path(f"/proc/{member.process.pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssShmem")


def stop(member: Process) -> None:
    """As the backstop does: with the control thread."""
    os.kill(member.process.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(member.process.pid, os.WUNTRACED)[1])


def go_on(member: Process) -> None:
    os.kill(member.process.pid, signal.SIGCONT)


def test_memory_goes_from_one_process_to_another(make_pool, start_member):
    pool = make_pool(10, BYTES)
    offline, online = admit(pool, 10, 10), pool.admit(Kind.ONLINE, 10)
    tenant, engine = start_member(offline), start_member(online)
    assert tenant.ask("map", *range(10)) == 10
    for handle in range(10):
        tenant.ask("fill", handle, 7)
    before = memory_of(tenant)
    assert engine.ask("map", 0) == 0
    stop(tenant)
    assert pool.reclaim(offline.number, [1, 5, 6, 7]) == 4
    assert held_bytes(offline) == 6 * BYTES
    assert before - memory_of(tenant) == 4 * BYTES
    assert pool.grant(online.number, 10) == 4
    assert engine.ask("map", *range(10)) == 4
    assert [engine.text("show", handle) for handle in range(4)] == ["0"] * 4
    assert held_bytes(online) == 4 * BYTES
    go_on(tenant)
    assert tenant.ask("go") == 0
    assert tenant.lost() == [1, 5, 6, 7]
    assert [tenant.text("show", handle) for handle in range(10)] == [
        "7" if handle in (0, 2, 3, 4, 8, 9) else "0" for handle in range(10)
    ]


def test_an_owner_keeps_what_it_has_and_never_sees_what_others_had(make_pool, start_member):
    pool = make_pool(4, BYTES)
    first, second = admit(pool, 4, 4), admit(pool, 4, 0)
    one, other = start_member(first), start_member(second)
    for value in (11, 12, 13):
        assert one.ask("map", 0, 1, 2, 3) == 4
        assert [one.text("show", handle) for handle in range(4)] == ["0"] * 4
        for handle in range(4):
            one.ask("fill", handle, value)
        one.ask("park")
        assert pool.reclaim(first.number, range(4)) == 4
        assert one.ask("go") == 0
        assert pool.grant(second.number, 4) == 4
        assert other.ask("map", 3, 2, 1, 0) == 4
        assert [other.text("show", handle) for handle in range(4)] == ["0"] * 4
        for handle in range(4):
            other.ask("fill", handle, value + 100)
        assert one.lost() == [0, 1, 2, 3]
        assert [one.text("show", handle) for handle in range(4)] == ["0"] * 4
        assert other.ask("unmap", 0, 1, 2, 3) == 0
        assert pool.grant(second.number, 0) == 0
        assert pool.grant(first.number, 4) == 4


@pytest.mark.parametrize("seed", range(4))
def test_handles_taken_from_threads_that_hammer_them(make_pool, start_member, seed):
    """Whatever its threads are in the middle of, no page outlives its handle's loss, and none is seen elsewhere."""
    source, tags = random.Random(seed), (101, 202)
    pool = make_pool(24, BYTES)
    admissions = [admit(pool, 16, 12) for _ in tags]
    members = [start_member(admission, tag) for admission, tag in zip(admissions, tags, strict=True)]
    for member in members:
        assert member.ask("storm", source.randrange(1 << 30)) == 0
    for _ in range(150):
        victim = source.randrange(2)
        member, admission = members[victim], admissions[victim]
        assert member.ask("park") == 0
        taken = pool.reclaim(admission.number, source.sample(range(16), source.randrange(17)))
        pool.settle()
        assert pool.status().of(admission.number).granted == 12 - taken
        assert member.ask("go") == 0
        assert pool.grant(admission.number, 12) == 12
    for member in members:
        foreign, maps, losses = map(int, member.text("calm").split())
        assert foreign == 0
        assert maps > 0
        assert losses > 0
    for admission in admissions:
        found = pool.status().of(admission.number)
        assert (found.held, found.overdrawn, held_bytes(admission)) == (0, 0, 0)


def test_the_backstop_stops_a_process_with_its_control_thread(make_pool, start_member):
    """It goes on before anything is quarantined: nothing faults, and the next stop puts it right."""
    pool = make_pool(16, BYTES)
    admission = admit(pool, 16, 16)
    member = start_member(admission, 7)
    assert member.ask("storm", 5) == 0
    taken = 0
    for _ in range(50):
        stop(member)
        taken += pool.reclaim(admission.number, range(16))
        go_on(member)
        time.sleep(0.001)
        assert member.ask("park") == 0
        pool.settle()
        assert member.ask("go") == 0
        assert pool.grant(admission.number, 16) == 16
    assert taken > 0
    foreign, _, losses = map(int, member.text("calm").split())
    assert foreign == 0
    assert 0 < losses <= taken
    assert held_bytes(admission) == 0


def test_a_dead_process_gives_back_what_it_held(make_pool, start_member):
    pool = make_pool(8, BYTES)
    admission, other = admit(pool, 8, 8), admit(pool, 8, 0)
    member = start_member(admission)
    assert member.ask("map", *range(8)) == 8
    member.process.kill()
    member.process.wait()
    assert (pool.status().free, pool.grant(other.number, 8)) == (0, 0)
    pool.dismiss(admission.number)
    assert pool.status().free == 8
    assert [found.number for found in pool.status().members] == [other.number]
    assert pool.grant(other.number, 8) == 8
    heir = start_member(other)
    assert heir.ask("map", *range(8)) == 8
    for call in (lambda: pool.dismiss(admission.number), lambda: pool.grant(admission.number, 1)):
        with pytest.raises(KeyError):
            call()


def test_a_waiting_process_is_woken_by_its_grant(make_pool, start_member):
    pool = make_pool(4, BYTES)
    admission = admit(pool, 4, 0)
    member = start_member(admission)
    member.say("wait", 3)
    pool.grant(admission.number, 2)
    pool.grant(admission.number, 3)
    assert member.hear() == "1"


def test_pools_end_while_members_work(make_pool, start_member):
    pool = Pool(4, BYTES)
    admission = admit(pool, 4, 4)
    member = start_member(admission)
    assert member.ask("map", 0, 1) == 2
    pool.close()
    member.ask("fill", 1, 5)
    assert member.ask("map", 2, 3) == 2
    assert member.text("show", 1) == "5"
