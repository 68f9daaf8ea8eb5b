"""Whatever dies: online work goes on, offline work stops or resumes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from gate.rig import until
from gate.stuck import stuck_device_thread

TESTS = str(Path(__file__).parents[1])

AGENT = """
import json, select, sys, time
from pathlib import Path
from gate.rig import Agent
agent = Agent(Path(sys.argv[1]), [int(sys.argv[2])], 5, json.loads(sys.argv[3]))
print("serving", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    agent.device.renew(time.monotonic() + 0.5)
agent.close()
"""


def agent_command(rig):
    return [sys.executable, "-c", AGENT, str(rig.folder), str(rig.cpus[0]), json.dumps(rig.pod_arguments())]


def agent_environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])}


@contextmanager
def agent_process(rig):
    """An agent in a process of its own, in place of the rig's; it closes the device at the end of its input."""
    rig.agent.close()
    command = agent_command(rig)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=agent_environment()
    ) as agent:
        try:
            assert agent.stdout.readline() == "serving\n"
            yield agent
        finally:
            agent.kill()


def test_lease_expiry_closes_the_gate(rig):
    rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    rig.device.renew(time.monotonic())
    rig.acknowledged()
    tenant.stands_still()
    assert not rig.device.closings(0)[-1].for_request
    rig.device.renew(time.monotonic() + 3600)
    tenant.advances()


def test_a_killed_agent_stops_its_tenants_and_the_next_adopts_them(rig):
    with agent_process(rig):
        engine = rig.engine()
        tenant = rig.tenant("spin()")
        tenant.advances()
    tenant.stops()
    # The engine does not notice.
    assert engine.call("busy") in (0, 1)
    engine.call("idle")
    rig.serve().renew(time.monotonic() + 3600)
    tenant.advances()
    assert rig.device.counts().online_processes == 1
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()


def test_a_device_whose_engine_cannot_tell_its_work_is_not_harvested(rig):
    with agent_process(rig):
        front, engine, tenant = rig.engine(), rig.engine(), rig.tenant("spin()")
        tenant.advances()
        engine.call("fail")
        tenant.stops()
    # The next agent is told it, too. What the engine's other process says changes nothing.
    rig.serve().renew(time.monotonic() + 3600)
    until(lambda: tenant_attached(rig) and front.call("busy") in (0, 1))
    front.call("idle")
    assert rig.device.counts().online_processes == 0
    tenant.stops()
    engine.kill()
    until(lambda: rig.device.counts().online_processes == 1)
    tenant.advances()


def tenant_attached(rig):
    return rig.device.counts().tenant_processes == 1


def test_an_agent_whose_thread_is_stuck_ends_and_the_next_serves_the_device(rig):
    with agent_process(rig) as agent:
        engine, tenant = rig.engine(), rig.tenant("spin()")
        tenant.advances()
        with stuck_device_thread(agent.pid):
            # Nobody opens the gate again.
            engine.call("busy")
            engine.call("idle")
            tenant.stops()
            agent.stdin.close()
            assert agent.wait(20) == 0
    rig.serve().renew(time.monotonic() + 3600)
    tenant.advances()


def test_the_thread_comes_round_whatever_happens_on_the_device(rig):
    def comes_round():
        before = rig.device.beat()
        until(lambda: before < rig.device.beat() <= time.monotonic(), "the thread comes round")

    comes_round()  # no engine
    engine = rig.engine()
    rig.opened()
    comes_round()
    tenant = rig.tenant("spin()")
    tenant.advances()
    tenant.freeze()
    engine.call("busy")
    comes_round()  # it awaits a tenant that does not answer
    tenant.kill()
    rig.acknowledged()
    comes_round()  # a request is in flight


def test_a_second_agent_is_refused(rig):
    command = agent_command(rig)
    other = subprocess.run(command, capture_output=True, text=True, timeout=20, env=agent_environment())
    assert "BlockingIOError" in other.stderr


def test_an_engine_killed_while_busy_does_not_hold_the_device(rig):
    engine, other = rig.engine(), rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    engine.kill()
    tenant.advances()
    other.kill()
    until(lambda: not rig.device.counts().gate_open)
    rig.acknowledged()
    tenant.stands_still()


def test_a_tenant_that_cannot_acknowledge_is_stopped_from_outside(make_rig):
    rig = make_rig(backstop=0.05)
    engine = rig.engine()
    # A thread that has let the signal through once is trusted for some stops.
    rig.opened()
    # Blocks the signal behind the library's back.
    tenant = rig.tenant(
        """
        import ctypes
        mask = ctypes.c_uint64(2**64 - 1)
        ctypes.CDLL(None).syscall(14, 0, ctypes.byref(mask), None, 8)
        spin()
        """
    )
    tenant.advances()
    for expected in (1, 2):
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still()
        counts = rig.device.counts()
        assert (counts.backstops, counts.tenants[0].backstops) == (expected, expected)
        engine.call("idle")
        tenant.advances()


# Memory in small pages, which takes long to give back.
LARGE = """
    import ctypes, mmap
    memory = mmap.mmap(-1, 2 << 30)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, len(memory))
    spin()
"""


def test_a_tenant_on_its_way_out_is_not_stopped_from_outside(make_rig):
    # Less than it takes to give that memory back; more than a killed thread waits for a CPU.
    rig = make_rig(backstop=0.2)
    engine, tenant = rig.engine(), rig.tenant(LARGE)
    tenant.advances()
    other = rig.tenant("spin()", slot=1)
    other.advances()
    before = rig.device.counts().tenants[0].backstops
    tenant.process.kill()
    engine.call("busy")
    rig.acknowledged()
    # The other one may be late here: the kernel frees that memory on its CPU.
    assert rig.device.counts().tenants[0].backstops == before
    other.stands_still()


def test_a_stop_by_the_backstop_survives_the_agent(make_rig):
    rig = make_rig(backstop=0.05)
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    tenant.freeze()
    engine.call("busy")
    rig.acknowledged()
    assert rig.device.counts().backstops == 1
    assert rig.pods[0].frozen()
    rig.agent.close()
    os.kill(tenant.process.pid, signal.SIGCONT)
    engine.call("idle")
    rig.serve().renew(time.monotonic() + 3600)
    tenant.advances()
