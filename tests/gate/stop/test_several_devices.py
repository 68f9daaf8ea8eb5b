"""One engine on two devices: a request closes both gates, and both open together."""

import contextlib
import errno
import mmap
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gate.rig import DEADLINE, Engine, acknowledged, until

from rowen.node_agent.native import library_path

ENGINE = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
library.rowen_online_attach.argtypes = [ctypes.c_char_p]
library.rowen_online_memory.restype = ctypes.c_void_p
error = ctypes.c_int32()
print(library.rowen_online_attach(sys.argv[2].encode()), flush=True)
for line in sys.stdin:
    if line == "memory\\n":
        assert library.rowen_online_memory(0, ctypes.byref(error)) is None
    if line == "fork\\n":
        child = os.fork()
        if not child:
            library.rowen_online_busy()
            os._exit(0)
        os.waitpid(child, 0)
    print(error.value, flush=True)
"""


def cpus():
    """One for each device."""
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


class Pair:
    """Two devices with one engine."""

    def __init__(self, make_rig):
        self.rigs = [make_rig(cpus=(cpu,)) for cpu in cpus()]
        self.sockets = ":".join(str(rig.socket(None)) for rig in self.rigs)
        self.engine = Engine(self.sockets)
        self.rigs[0].on_close(self.engine.kill)
        self.attached()

    def attached(self):
        until(lambda: [rig.device.counts().online_processes for rig in self.rigs] == [1, 1], "it is on both")

    def busy(self):
        self.engine.call("busy")
        # By the call itself; an agent that finds a request closes its gate too, some time later.
        assert [counts.gate_open for counts in self.counts()] == [False, False]
        self.acknowledged()

    def acknowledged(self):
        until(lambda: all(acknowledged(rig.device) for rig in self.rigs), "both are closed")

    def opened(self):
        until(lambda: all(rig.device.counts().gate_open for rig in self.rigs), "both are open")

    def idle(self):
        self.engine.call("idle")
        self.opened()

    def counts(self):
        return [rig.device.counts() for rig in self.rigs]


@pytest.fixture
def pair(make_rig):
    pair = Pair(make_rig)
    yield pair
    assert [counts.backstops for counts in pair.counts()] == [0, 0]


def test_a_request_stops_the_work_on_both_devices_and_is_counted_on_each(pair):
    tenants = [rig.tenant("spin()") for rig in pair.rigs]
    for number in range(1, 4):
        for tenant in tenants:
            tenant.advances()
        pair.busy()
        for tenant in tenants:
            tenant.stands_still()
        assert [counts.preemptions for counts in pair.counts()] == [number, number]
        pair.idle()
    assert [counts.in_flight for counts in pair.counts()] == [0, 0]


def test_both_stay_closed_until_the_last_request_has_ended(pair):
    pair.busy()
    pair.engine.call("busy")
    pair.engine.call("idle")
    end = time.monotonic() + 0.6
    until(lambda: all(rig.device.beat() > end for rig in pair.rigs), "the agents have come round")
    assert [(counts.in_flight, counts.gate_open) for counts in pair.counts()] == [(1, False)] * 2
    pair.idle()


def test_a_job_on_one_of_the_devices_is_preempted_there_alone(pair):
    tenant = pair.rigs[1].tenant("spin()")
    tenant.advances()
    assert pair.engine.call("tenants") == 1
    begin = time.monotonic_ns()
    pair.busy()
    tenant.stands_still()
    pair.engine.call("record", begin, 5_000_000, 2_000_000, 7, 1)
    pair.idle()
    tenant.advances()
    assert [counts.preemptions for counts in pair.counts()] == [0, 1]
    until(lambda: all(rig.device.requests(0) for rig in pair.rigs), "both know the request")
    ((first,), (second,)) = (rig.device.requests(0) for rig in pair.rigs)
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert (first.begin, first.end, first.ttft, first.tpot) == (second.begin, second.end, second.ttft, second.tpot)


def test_a_job_in_lockstep_on_both_is_preempted_once_by_a_request(pair):
    pair.rigs[1].share_pod(1, pair.rigs[0].pods[0])
    sockets = ":".join(str(rig.socket(slot)) for slot, rig in enumerate(pair.rigs))
    tenant = pair.rigs[0].tenant("spin()", ROWEN_TENANT_SOCKETS=sockets)
    for number in range(1, 4):
        tenant.advances()
        pair.busy()
        tenant.stands_still()
        assert [counts.preemptions for counts in pair.counts()] == [number, number]
        pair.idle()


def test_the_cooldown_is_the_same_on_both(pair):
    pair.busy()
    step = time.monotonic_ns()
    for _ in range(3):
        step += 50_000_000
        pair.engine.call("step", step - 10_000_000, step)
    pair.engine.call("idle")
    until(lambda: [counts.decode_gap for counts in pair.counts()] == [0.04, 0.04], "both know the gap")
    until(lambda: [counts.cooldown for counts in pair.counts()] == [0.08, 0.08], "both wait for as long")


def test_one_agent_that_goes_closes_its_own_gate_and_leaves_the_other_alone(pair):
    tenants = [rig.tenant("spin()") for rig in pair.rigs]
    for tenant in tenants:
        tenant.advances()
    pair.rigs[0].agent.close()
    tenants[0].stops()
    tenants[1].advances()
    pair.engine.call("busy")
    until(lambda: acknowledged(pair.rigs[1].device), "the other is closed")
    tenants[1].stands_still()
    # The next one learns of the request that is under way.
    pair.rigs[0].serve().renew(time.monotonic() + 3600)
    until(lambda: pair.rigs[0].device.counts().in_flight == 1)
    tenants[0].stands_still()
    pair.idle()
    for tenant in tenants:
        tenant.advances()


def test_both_agents_that_go_find_the_engine_again(pair):
    for rig in pair.rigs:
        rig.agent.close()
    pair.engine.call("busy")
    for rig in pair.rigs:
        rig.serve().renew(time.monotonic() + 3600)
    until(lambda: [counts.in_flight for counts in pair.counts()] == [1, 1], "both know the request")
    pair.idle()
    pair.busy()
    pair.idle()


def gate_of(device):
    """Tells whether the gate is open by the device's file alone, also when its agent is gone."""
    pidfd = os.pidfd_open(os.getpid())
    admission = device.admit(1, os.getpid(), pidfd)
    os.close(pidfd)
    os.close(admission.member_file)
    page = mmap.mmap(admission.device_file, mmap.PAGESIZE, prot=mmap.PROT_READ)
    return lambda: page[64] % 2 == 0


def test_an_agent_that_goes_while_the_engine_asks_another_leaves_no_gate_open(make_rig):
    rig = make_rig()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mute:
        path = rig.folder / "mute.sock"
        mute.bind(str(path))
        mute.listen()
        engine = Engine(f"{path}:{rig.socket(None)}")
        rig.on_close(engine.kill)
        rig.opened()
        is_open = gate_of(rig.device)
        assert is_open()
        mute.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                mute.accept()[0].close()
        mute.settimeout(DEADLINE)
        asking, _ = mute.accept()
        rig.agent.close()
        rig.serve().renew(time.monotonic() + 3600)
        asking.close()
        until(lambda: rig.device.counts().online_processes == 1, "it has gone over")
        assert not is_open()


def test_an_engine_that_dies_holds_neither(pair):
    tenants = [rig.tenant("spin()") for rig in pair.rigs]
    pair.opened()
    pair.busy()
    pair.engine.kill()
    until(lambda: [counts.online_processes for counts in pair.counts()] == [0, 0], "it is gone")
    assert [counts.in_flight for counts in pair.counts()] == [0, 0]
    # Without an engine nothing is harvested.
    for tenant in tenants:
        tenant.stands_still()
    other = Engine(pair.sockets)
    pair.rigs[0].on_close(other.kill)
    for tenant in tenants:
        tenant.advances()


def test_an_engine_that_cannot_tell_its_work_is_none_on_both(pair):
    tenants = [rig.tenant("spin()") for rig in pair.rigs]
    for tenant in tenants:
        tenant.advances()
    pair.engine.call("fail")
    pair.acknowledged()
    for tenant in tenants:
        tenant.stands_still()
    until(lambda: [counts.online_processes for counts in pair.counts()] == [0, 0], "neither counts it")


def engine(sockets):
    """With what `gate.rig.Engine` does not call."""
    return subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(library_path()), sockets],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_memory_of_several_pools_is_refused(pair):
    with engine(pair.sockets) as process:
        process.stdout.readline()
        assert ask(process, "memory") == -errno.EOPNOTSUPP
        process.kill()


def test_a_child_has_no_part_in_its_engines_devices(pair):
    with engine(pair.sockets) as process:
        process.stdout.readline()
        pair.opened()
        closings = [len(rig.device.closings(0)) for rig in pair.rigs]
        assert ask(process, "fork") == 0
        assert [counts.gate_open for counts in pair.counts()] == [True, True]
        assert [len(rig.device.closings(0)) for rig in pair.rigs] == closings
        assert [counts.in_flight for counts in pair.counts()] == [0, 0]
        process.kill()


def test_it_is_pinned_to_the_cpus_of_both_once_both_are_known(make_rig):
    rigs = [make_rig(cpus=(cpu,)) for cpu in cpus()]
    rigs[1].agent.close()
    engine = Engine(":".join(str(rig.socket(None)) for rig in rigs))
    rigs[0].on_close(engine.kill)
    pid = engine.process.pid

    def affinities():
        return {tuple(sorted(os.sched_getaffinity(int(task.name)))) for task in Path(f"/proc/{pid}/task").iterdir()}

    until(lambda: rigs[0].device.counts().online_processes == 1)
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cpus()[1]})
    assert engine.call("pin") == 0
    assert affinities() == {cpus()[1:]}
    rigs[1].serve().renew(time.monotonic() + 3600)
    until(lambda: affinities() == {tuple(sorted(set(cpus())))}, "it is on the CPUs of both")


@pytest.mark.parametrize(
    ("sockets", "error"), [(":".join(["/x"] * 17), errno.E2BIG), (f"/x:/{'y' * 108}", errno.ENAMETOOLONG)]
)
def test_what_cannot_be_attached_to_is_told(sockets, error):
    with engine(sockets) as process:
        assert int(process.stdout.readline()) == -error
        process.kill()
