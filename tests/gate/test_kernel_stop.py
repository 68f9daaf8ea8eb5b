"""The kernel stops what does not stop by itself."""

import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from gate.rig import COUNTER, until

from rowen.node_agent.devices.device import Offence


@pytest.fixture(scope="module")
def static_program(tmp_path_factory):
    made = tmp_path_factory.mktemp("static") / "spin"
    compiler = sysconfig.get_config_var("CC").split()[0]
    source = Path(__file__).parent / "static_spin.c"
    subprocess.run([compiler, "-static", "-O1", str(source), "-o", str(made)], check=True, timeout=60)
    return made


# By raw system calls, behind the library's back.
REPLACED = """
    import ctypes
    action = (ctypes.c_uint64 * 4)(1, 0, 0, 0)
    assert ctypes.CDLL(None).syscall(13, 23, action, None, 8) == 0
    spin()
"""
BLOCKED = """
    import ctypes
    mask = ctypes.c_uint64(2**64 - 1)
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(mask), None, 8)
    spin()
"""
BLOCKED_LATER = """
    import ctypes
    mask = ctypes.c_uint64(2**64 - 1)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        count()
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(mask), None, 8)
    spin()
"""


def held(rig):
    until(rig.pods[0].frozen, "the kernel has frozen the pod")


def account(rig):
    return rig.device.counts().tenants[0]


def test_a_static_program_is_stopped_while_requests_are_in_flight(rig, static_program):
    engine = rig.engine()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    for _ in range(3):
        engine.call("busy")
        held(rig)
        tenant.stands_still()
        engine.call("idle")
        tenant.advances()
    assert account(rig).backstops >= 3
    assert account(rig).offence is Offence.RAN
    assert account(rig).attached == 0


def test_a_child_without_the_library_is_stopped_with_its_pod(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        f"""
        import subprocess
        bare = {{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}}
        subprocess.Popen([{sys.executable!r}, "-c", os.environ["CODE"]], env=bare)
        spin(0)
        """,
        CODE=COUNTER + "spin(1)",
    )
    tenant.advances(2)
    engine.call("busy")
    held(rig)
    tenant.stands_still(2)
    assert account(rig).offence is Offence.RAN
    engine.call("idle")
    tenant.advances(2)


def test_a_replaced_handler_is_seen_at_the_stop(rig):
    """The agent would wait 5 s for an acknowledgement; it does not have to."""
    engine = rig.engine()
    tenant = rig.tenant(REPLACED)
    rig.opened()
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()
    assert rig.pods[0].frozen()
    assert (account(rig).offence, account(rig).offender) == (Offence.HANDLER_REPLACED, tenant.process.pid)
    engine.call("idle")
    tenant.advances()


def test_a_thread_that_blocks_the_signal_does_not_acknowledge(make_rig):
    rig = make_rig(backstop=1.0)
    engine = rig.engine()
    rig.opened()
    tenant = rig.tenant(BLOCKED)
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()
    assert (account(rig).offence, account(rig).offender) == (Offence.UNACKNOWLEDGED, tenant.process.pid)


def test_a_thread_that_blocks_the_signal_between_two_stops_is_stopped_by_what_it_uses(rig):
    engine = rig.engine()
    tenant = rig.tenant(BLOCKED_LATER)
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    engine.call("idle")
    tenant.advances()
    time.sleep(1.2)
    tenant.advances()
    engine.call("busy")
    held(rig)
    tenant.stands_still()
    assert account(rig).backstops == 1


def test_a_process_that_cannot_answer_but_does_not_run_is_no_offence(make_rig):
    rig = make_rig(backstop=0.05)
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    tenant.freeze()
    engine.call("busy")
    rig.acknowledged()
    assert account(rig).offence is Offence.LATE


def test_a_killed_process_of_a_frozen_pod_ends(rig, static_program):
    engine = rig.engine()
    tenant, other = rig.run([str(static_program)]), rig.run([str(static_program)])
    tenant.advances()
    engine.call("busy")
    held(rig)
    tenant.process.kill()
    assert tenant.process.wait(20) == -9
    # The other one goes on standing still.
    held(rig)
    other.stands_still()


def test_nothing_is_left_frozen_by_an_agent_that_is_gone(rig, static_program):
    engine = rig.engine()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    engine.call("busy")
    held(rig)
    rig.agent.close()
    tenant.stands_still()
    rig.serve().renew(time.monotonic() + 3600)
    tenant.stands_still()
    engine.call("idle")
    tenant.advances()


def test_a_frozen_pod_whose_slot_another_one_gets_is_let_go(rig, static_program):
    engine = rig.engine()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    engine.call("busy")
    held(rig)
    other = rig.pods[1]
    rig.device.set_pod(0, other.number, other.freezer, other.cpuacct)
    tenant.advances()
