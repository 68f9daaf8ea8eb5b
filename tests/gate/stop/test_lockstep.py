"""A tenant on several devices runs while all of their gates are open."""

import ctypes
import os
import signal
import struct
import sys
import time

import pytest
from gate.rig import COUNTER, until

PROGRESS = """
    import ctypes
    library = ctypes.CDLL(None)
    library.rowen_tenant_progress.argtypes = [ctypes.c_uint64] * 3
    step = 0
    while True:
        library.rowen_tenant_progress(step, 1000, 10 * step + 7)
        step += 1
        count()
"""

# Blocks the signal behind the library's back.
STUBBORN = """
    import ctypes
    mask = ctypes.c_uint64(2**64 - 1)
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(mask), None, 8)
    spin()
"""


class Pair:
    """Two devices, each with an engine, and tenants on both."""

    def __init__(self, make_rig, cpus, **settings):
        self.rigs = [make_rig(cpus=cpus[0], **settings), make_rig(cpus=cpus[1], **settings)]
        self.rigs[1].share_pod(1, self.rigs[0].pods[0])
        self.engines = [rig.engine() for rig in self.rigs]

    def tenant(self, code, **extra):
        return self.rigs[0].tenant(code, **self.sockets(), **extra)

    def sockets(self):
        return {"ROWEN_TENANT_SOCKETS": ":".join(str(rig.socket(slot)) for slot, rig in enumerate(self.rigs))}

    def close(self, index):
        self.engines[index].call("busy")
        self.rigs[index].acknowledged()

    def open(self, index):
        self.engines[index].call("idle")
        self.rigs[index].opened()

    def cooperated(self):
        """Nothing had to be stopped from outside."""
        assert [rig.device.counts().backstops for rig in self.rigs] == [0, 0]

    def account(self, index):
        """What the device says of the tenant."""
        return self.rigs[index].device.counts().tenants[index]


def apart():
    cpus = sorted(os.sched_getaffinity(0))
    return ((cpus[0],), (cpus[-1],))


def together():
    return ((max(os.sched_getaffinity(0)),),) * 2


@pytest.fixture(params=[apart, together])
def pair(make_rig, request):
    pair = Pair(make_rig, request.param())
    yield pair
    pair.cooperated()


@pytest.fixture
def pair_apart(make_rig):
    pair = Pair(make_rig, apart())
    yield pair
    pair.cooperated()


@pytest.mark.parametrize("first", [0, 1])
def test_stops_when_either_closes_and_runs_when_both_are_open(pair, first):
    second = 1 - first
    tenant = pair.tenant("spin()")
    tenant.advances()
    for _ in range(3):
        pair.close(first)
        tenant.stands_still()
        pair.open(first)
        tenant.advances()
        pair.close(second)
        tenant.stands_still()
        # Closes while the tenant is parked: it acknowledges there too.
        pair.close(first)
        assert all(rig.device.closings(0)[-1].tenants == 1 for rig in pair.rigs)
        pair.open(second)
        tenant.stands_still()
        pair.close(second)
        pair.open(first)
        tenant.stands_still()
        pair.open(second)
        tenant.advances()


def test_a_close_on_both_at_once(pair):
    tenant = pair.tenant("threading.Thread(target=spin, args=(1,)).start(); spin()")
    tenant.advances(2)
    for _ in range(20):
        for engine in pair.engines:
            engine.call("busy")
        for rig in pair.rigs:
            rig.acknowledged()
        tenant.stands_still(2)
        for engine in pair.engines:
            engine.call("idle")
        tenant.advances(2)


def test_runs_on_the_cpus_of_both(pair_apart):
    tenant = pair_apart.tenant("_counts[:8] = sum(1 << cpu for cpu in os.sched_getaffinity(0)).to_bytes(8, 'little')")
    tenant.process.wait()
    assert tenant.counts() == [sum(1 << cpu for cpus in set(apart()) for cpu in cpus)]


def test_forked_and_executed_children(pair_apart):
    code = f"""
        import subprocess
        if os.fork() == 0:
            spin(1)
        if os.fork() == 0:
            subprocess.run([{sys.executable!r}, "-c", os.environ["CODE"]])
        spin()
    """
    tenant = pair_apart.tenant(code, CODE=COUNTER + "spin(2)")
    tenant.advances(3)
    for index in (0, 1):
        device = pair_apart.rigs[index].device
        until(lambda device=device, index=index: device.counts().tenants[index].attached == 4)
        pair_apart.close(index)
        assert device.closings(0)[-1].tenants == 4
        tenant.stands_still(3)
        pair_apart.open(index)
        tenant.advances(3)


@pytest.mark.parametrize("index", [0, 1])
def test_the_lease_of_one_device_runs_out(pair_apart, index):
    tenant = pair_apart.tenant("spin()")
    tenant.advances()
    rig, other = pair_apart.rigs[index], pair_apart.rigs[1 - index]
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    assert other.device.counts().gate_open
    tenant.stands_still()
    rig.device.renew(time.monotonic() + 3600)
    tenant.advances()


@pytest.mark.parametrize("index", [0, 1])
def test_the_agent_of_one_device_is_gone(pair_apart, index):
    """Nobody closes that gate: the tenant itself sees the lease run out."""
    tenant = pair_apart.tenant("spin()")
    tenant.advances()
    rig = pair_apart.rigs[index]
    rig.device.renew(time.monotonic() + 0.3)
    rig.agent.close()
    tenant.stops()
    rig.serve().renew(time.monotonic() + 3600)
    tenant.advances()


@pytest.mark.parametrize("index", [0, 1])
def test_the_engine_of_one_device_goes(pair_apart, index):
    tenant = pair_apart.tenant("spin()")
    tenant.advances()
    rig = pair_apart.rigs[index]
    pair_apart.engines[index].kill()
    until(lambda: not rig.device.counts().gate_open)
    rig.acknowledged()
    tenant.stands_still()
    rig.engine()
    tenant.advances()


def test_progress_and_granted_time_are_the_process_s_on_every_page(pair_apart):
    tenant = pair_apart.tenant(PROGRESS)
    tenant.advances()
    until(lambda: pair_apart.account(0).tokens > 0)
    pair_apart.close(0)
    tenant.stands_still()
    first, second = pair_apart.account(0), pair_apart.account(1)
    # It may have been stopped between the two pages.
    assert 0 <= first.reports - second.reports <= 1
    assert abs(first.tokens - second.tokens) <= 10
    assert 0 < second.granted_seconds <= first.granted_seconds
    # The other device is open and waits for nobody: its open time goes on, the tenant's granted time does not.
    until(lambda: pair_apart.account(1).open_seconds > second.open_seconds + 0.2)
    assert pair_apart.account(1).granted_seconds == second.granted_seconds
    pair_apart.open(0)
    until(lambda: all(pair_apart.account(index).granted_seconds > first.granted_seconds for index in (0, 1)))


def test_a_process_held_by_the_backstop_of_two_devices_runs_when_both_are_open(make_rig):
    pair = Pair(make_rig, apart(), backstop=0.05)
    # A thread that has let the signal through once is trusted for some stops.
    for rig in pair.rigs:
        rig.opened()
    tenant = pair.tenant(STUBBORN)
    tenant.advances()
    for first, second in ((0, 1), (1, 0)):
        pair.close(first)
        pair.close(second)
        pair.open(first)
        tenant.stands_still()
        pair.close(first)
        pair.open(second)
        tenant.stands_still()
        pair.open(first)
        tenant.advances()
    assert [rig.device.counts().backstops for rig in pair.rigs] == [3, 3]


def test_a_hold_of_one_device_outlives_the_agent(make_rig):
    pair = Pair(make_rig, apart(), backstop=0.05)
    tenant = pair.tenant("spin()")
    tenant.advances()
    tenant.freeze()
    pair.close(0)
    pair.close(1)
    for rig in pair.rigs:
        rig.agent.close()
    os.kill(tenant.process.pid, signal.SIGCONT)
    for rig in pair.rigs:
        rig.serve().renew(time.monotonic() + 3600)
    pair.open(0)
    tenant.stands_still()
    pair.open(1)
    tenant.advances()


def refuse_waitv():
    """A seccomp profile from before futex_waitv()."""
    load, equal, give = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0), (equal, 0, 1, 449), (give, 0, 0, 0x00050000 | 38), (give, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, header, 0, 0) == 0


def test_without_futex_waitv(pair_apart):
    command = [sys.executable, "-c", COUNTER + "spin()"]
    tenant = pair_apart.rigs[0].run(command, before=refuse_waitv, **pair_apart.sockets())
    tenant.advances()
    for index in (1, 0, 1):
        pair_apart.close(index)
        tenant.stands_still()
        pair_apart.open(index)
        tenant.advances()


def test_a_list_that_is_too_long(rig):
    rig.engine()
    tenant = rig.tenant("spin()", ROWEN_TENANT_SOCKETS=":".join([str(rig.socket(0))] * 17))
    _, errors = tenant.process.communicate(timeout=20)
    assert tenant.process.returncode == 1
    assert "ROWEN_TENANT_SOCKETS" in errors
