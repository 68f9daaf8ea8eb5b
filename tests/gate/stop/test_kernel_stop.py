"""The kernel stops what does not stop by itself."""

import contextlib
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from gate.rig import COUNTER, Tenant, acknowledged, until

from rowen.node_agent.devices.counts import Offence


def built(source, folder):
    made = folder / source.stem
    compiler = sysconfig.get_config_var("CC").split()[0]
    subprocess.run([compiler, "-static", "-O1", "-pthread", str(source), "-o", str(made)], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def static_program(tmp_path_factory):
    return built(Path(__file__).parent / "static_spin.c", tmp_path_factory.mktemp("static"))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return built(Path(__file__).parents[2] / "agent_cgroup" / "work.c", tmp_path_factory.mktemp("work"))


@pytest.fixture
def counts(tmp_path):
    """Where `work` counts."""
    made = tmp_path / "counts"
    made.write_bytes(bytes(4096))
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
    while not os.path.exists(os.environ["BLOCKS"]):
        count()
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(mask), None, 8)
    spin(1)
"""


@contextlib.contextmanager
def lock_held(work, counts, lock):
    """Keeps others from writing to the file, until what it gives is called."""
    lock.touch()
    command = [str(work), str(counts), "hold", str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:

        def let_go():
            print("go", file=holder.stdin, flush=True)
            assert holder.wait(60) == 0

        try:
            assert holder.stdout.readline() == "held\n"
            yield let_go
        finally:
            holder.kill()


def awaits_lock(process):
    assert process.stdout.readline() == "waits\n"
    until(lambda: ") D " in Path(f"/proc/{process.pid}/stat").read_text(), "it cannot be interrupted")


def held(rig):
    until(rig.pods[0].frozen, "the kernel has frozen the pod")


def signalled(pid):
    """Whether a process's first thread has SIGKILL pending, for itself alone."""
    pending = re.search(r"^SigPnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    return int(pending, 16) >> (signal.SIGKILL - 1) & 1 == 1


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

    def is_accused():
        rig.opened()
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still()
        engine.call("idle")
        return (account(rig).offence, account(rig).offender) == (Offence.UNACKNOWLEDGED, tenant.process.pid)

    until(is_accused, "what a new pod may use is used up")


def test_a_thread_that_blocks_the_signal_between_two_stops_is_stopped_by_what_it_uses(rig):
    engine = rig.engine()
    blocks = rig.folder / "blocks"
    tenant = rig.tenant(BLOCKED_LATER, BLOCKS=str(blocks))
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    engine.call("idle")
    tenant.advances()
    blocks.touch()
    until(lambda: tenant.counts(2)[1] > 0, "it has blocked the signal")
    engine.call("busy")
    held(rig)
    tenant.stands_still(2)
    assert account(rig).backstops == 1


def test_a_process_that_cannot_answer_but_does_not_run_is_no_offence(make_rig):
    rig = make_rig(backstop=0.05)
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    tenant.freeze()
    engine.call("busy")
    rig.acknowledged()
    assert account(rig).offence is Offence.BLAMELESS
    assert (account(rig).backstops, account(rig).offences) == (1, 0)


def test_a_pod_that_runs_is_stopped_while_another_one_is_awaited(make_rig, static_program, work, counts, tmp_path):
    """A process does not answer, and a thread that cannot be interrupted keeps its pod from being frozen."""
    rig = make_rig(backstop=0.05)
    engine = rig.engine()
    rig.opened()
    silent, spinning = rig.tenant("spin()"), rig.run([str(static_program)], slot=1)
    silent.advances()
    spinning.advances()
    silent.freeze()
    with lock_held(work, counts, tmp_path / "lock"):
        awaits_lock(rig.run([str(work), str(counts), "await", str(tmp_path / "lock")]).process)

        def is_stopped_early():
            rig.opened()
            engine.call("busy")
            until(rig.pods[1].frozen, "the kernel has frozen the pod that runs")
            awaited = not acknowledged(rig.device)
            spinning.stands_still()
            engine.call("idle")
            return awaited

        until(is_stopped_early, "what a new pod may use is used up")
    assert rig.device.counts().tenants[1].offence is Offence.RAN


def test_killed_processes_of_a_frozen_pod_end_and_the_others_do_not_run_meanwhile(rig, static_program):
    engine = rig.engine()
    rig.opened()
    tenants = [rig.run([str(static_program)]) for _ in range(3)]
    for tenant in tenants:
        tenant.advances()
    engine.call("busy")
    held(rig)
    other = tenants.pop()
    before = other.counts()
    for tenant in tenants:
        tenant.process.kill()
        assert tenant.process.wait(60) == -9
    assert rig.pods[0].frozen()
    assert other.counts() == before
    engine.call("idle")
    other.advances()


def test_a_process_that_becomes_another_program_stays_in_its_frozen_pod(rig, static_program, work, tmp_path):
    """To become another program the kernel signals the others of its threads as it does those who have to die."""
    engine = rig.engine()
    rig.opened()
    tenants = [rig.run([str(static_program)]) for _ in range(3)]
    for tenant in tenants:
        tenant.advances()
    counts, own = tmp_path / "counts", tmp_path / "own"
    for file in (counts, own):
        file.write_bytes(bytes(4096))
    with lock_held(work, counts, tmp_path / "lock") as let_go:
        changing = Tenant(rig.run([str(work), str(own), "replace", str(tmp_path / "lock")]).process, own)
        awaits_lock(changing.process)
        changing.tell()
        until(lambda: signalled(changing.process.pid), "its first thread has to end")
        engine.call("busy")
        until(lambda: account(rig).backstops == 1, "the kernel was asked")
        # The second one is found at a look after that one at all of the pod's processes which found the first.
        for tenant in tenants[:2]:
            tenant.process.kill()
            assert tenant.process.wait(60) == -signal.SIGKILL
        let_go()
    assert str(changing.process.pid) in (rig.pods[0].freezer / "cgroup.procs").read_text().split()
    changing.stands_still()
    engine.call("idle")
    changing.advances()


def test_a_new_pod_may_use_more_whatever_closes_come_meanwhile(rig, static_program):
    engine = rig.engine()
    rig.opened()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    pod = rig.pods[0]

    def used():
        return int((pod.cpuacct / "cpuacct.usage_user").read_text())

    rig.device.set_pod(0, pod.number, pod.freezer, pod.cpuacct)
    engine.call("busy")
    rig.acknowledged()
    engine.call("idle")
    rig.opened()
    before = used()
    engine.call("busy")
    held(rig)
    assert used() - before > 300_000_000


def test_work_that_the_kernel_does_is_stopped_and_is_no_offence(rig, work, counts):
    engine = rig.engine()
    rig.opened()
    tenant = Tenant(rig.run([str(work), str(counts), "zeros"]).process, counts)
    tenant.advances()
    engine.call("busy")
    held(rig)
    tenant.stands_still()
    assert (account(rig).offence, account(rig).backstops, account(rig).offences) == (Offence.BLAMELESS, 1, 0)
    engine.call("idle")
    tenant.advances()


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


def test_what_an_agent_has_asked_to_freeze_is_let_go_by_the_next_one(rig, static_program, work, counts, tmp_path):
    """A thread that cannot be interrupted keeps the pod from being frozen until that agent is gone."""
    engine = rig.engine()
    rig.opened()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    with lock_held(work, counts, tmp_path / "lock") as let_go:
        stuck = rig.run([str(work), str(counts), "await", str(tmp_path / "lock")]).process
        awaits_lock(stuck)
        engine.call("busy")
        until(lambda: account(rig).backstops == 1, "the kernel was asked")
        rig.agent.close()
        assert (rig.pods[0].freezer / "freezer.state").read_text() == "FREEZING\n"
        rig.serve().renew(time.monotonic() + 3600)
        let_go()
    held(rig)
    tenant.stands_still()
    engine.call("idle")
    tenant.advances()
    Tenant(stuck, counts).advances()


def test_a_pod_that_was_left_frozen_and_comes_while_the_gate_is_open_is_let_go(rig):
    rig.engine()
    rig.opened()
    pod, state = rig.pods[1], rig.pods[1].freezer / "freezer.state"
    state.write_text("FROZEN")
    rig.device.set_pod(1, pod.number, pod.freezer, pod.cpuacct)
    until(lambda: state.read_text() == "THAWED\n", "it is let go")


def test_a_frozen_pod_whose_slot_another_one_gets_is_let_go(rig, static_program):
    engine = rig.engine()
    tenant = rig.run([str(static_program)])
    tenant.advances()
    engine.call("busy")
    held(rig)
    other = rig.pods[1]
    rig.device.set_pod(0, other.number, other.freezer, other.cpuacct)
    tenant.advances()
