"""Processes and threads that a tenant makes are behind the gate too."""

import sys
import time

from gate.rig import until


def processes(rig):
    return rig.device.counts().tenant_processes


def test_a_forked_child_stops(rig):
    engine = rig.engine()
    tenant = rig.tenant("spin(os.fork() and 1)")
    tenant.advances(2)
    until(lambda: processes(rig) == 2)
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still(2)
    engine.call("idle")
    tenant.advances(2)


def test_children_forked_by_a_thread_while_the_gate_moves(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        def forks():
            while True:
                child = os.fork()
                if child == 0:
                    count(1)
                    os._exit(0)
                os.waitpid(child, 0)
                count(0)
        threading.Thread(target=forks).start()
        spin(2)
        """
    )
    tenant.advances(3)
    for _ in range(20):
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still(3)
        engine.call("idle")
        tenant.advances(3)
    assert tenant.process.poll() is None


def test_executed_programs_stop_and_survive_signals(rig):
    engine = rig.engine()
    script = 'i=0; while true; do i=$((i+1)); /bin/true || exit 9; echo $i > "$FILE"; done'
    file = rig.folder / "shell"
    tenant = rig.run(["/bin/sh", "-c", script], FILE=str(file))
    read = lambda: file.read_text() if file.exists() else ""  # noqa: E731
    until(lambda: read() != "")
    for _ in range(20):
        engine.call("busy")
        rig.acknowledged()
        # The system call that the shell is in goes on to its end: the file may still be emptied, or written.
        before = read()
        seen = {before}
        for _ in range(30):
            time.sleep(0.001)
            seen.add(read())
            assert len(seen) <= 2, "the shell ran behind a closed gate"
        engine.call("idle")
        until(lambda before=before: read() not in ("", before))
    assert tenant.process.poll() is None


def test_threads_made_while_the_gate_closes(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        def breed():
            count(0)
            threading.Thread(target=breed).start()
        breed()
        spin(1)
        """
    )
    tenant.advances(2)
    for _ in range(20):
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still(2)
        engine.call("idle")
        rig.opened()
        tenant.advances(2)


def test_a_process_that_ends_frees_its_slot(rig):
    rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    until(lambda: processes(rig) == 1)
    tenant.kill()
    until(lambda: processes(rig) == 0)
    assert rig.device.reset(0)


def test_the_environment_of_a_child_keeps_the_gate(rig):
    engine = rig.engine()
    code = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', os.environ['CODE']])"
    tenant = rig.tenant(code, CODE=SPIN)
    tenant.advances()
    until(lambda: processes(rig) == 2)
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()


SPIN = """
import mmap, os
file = open(os.environ["COUNTS"], "r+b")
counts = mmap.mmap(file.fileno(), 4096)
value = 0
while True:
    value += 1
    counts[:8] = value.to_bytes(8, "little")
"""
