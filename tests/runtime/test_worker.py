"""SIGTERM of Rowen's own workers, behind a gate that stays closed and outside Rowen."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate.rig import COUNTER, Rig, Tenant, thread_names, until
from runtime.server import environment

from rowen.crds.job.worker import BatchSpec, Location, ModelLocation
from rowen.demo.samples import requests, write_lines
from rowen.node_agent.native import library_path

WORKER = """
from rowen.runtime.worker import run
import sys
sys.exit(run("steps", lambda progress: {work}))
"""
OWN_HANDLERS = """
import signal
def resist(progress):
    for answer in (signal.SIG_IGN, signal.SIG_DFL, lambda *_: count(1)):
        signal.signal(signal.SIGTERM, answer)
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    threading.Thread(target=lambda: signal.sigtimedwait(range(1, 65), 3600), daemon=True).start()
    spin()
"""


@pytest.fixture
def rig() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = Rig(Path(folder), cpus=(max(os.sched_getaffinity(0)),))
        yield made
        made.close()


def worker(rig: Rig, work: str = "spin()", before: str = "") -> Tenant:
    return rig.tenant(before + WORKER.format(work=work), ROWEN_JOB_SPEC="{}")


def ended(rig: Rig, tenant: Tenant) -> int:
    """Exit code, before the gate has opened again."""
    code = tenant.process.wait(20)
    assert rig.device.closings(0)[-1].opened is None
    return code


def has_control_thread(pid: int) -> bool:
    return "rowen-gate" in thread_names(pid).values()


@pytest.mark.parametrize(("work", "before"), [("spin()", ""), ("resist(progress)", OWN_HANDLERS)])
def test_a_stopped_worker_ends_at_once(rig: Rig, work: str, before: str) -> None:
    engine = rig.engine()
    tenant = worker(rig, work, before)
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.process.terminate()
    assert ended(rig, tenant) == 1
    assert tenant.counts(2)[1] == 0
    until(lambda: rig.device.counts().tenant_processes == 0, "its slot is free")


def test_a_worker_that_has_never_run_ends_at_once(rig: Rig) -> None:
    rig.engine().call("busy")
    rig.acknowledged()
    tenant = worker(rig)
    until(lambda: has_control_thread(tenant.process.pid), "it is behind the gate")
    tenant.process.terminate()
    assert ended(rig, tenant) == 1
    assert tenant.counts() == [0]


def test_a_worker_that_runs_ends_at_once(rig: Rig) -> None:
    rig.engine()
    tenant = worker(rig, "resist(progress)", OWN_HANDLERS)
    tenant.advances()
    tenant.process.terminate()
    assert tenant.process.wait(20) == 1


def test_process_1_of_a_container_ends_at_once(rig: Rig) -> None:
    engine = rig.engine()
    program = ["env", f"LD_PRELOAD={library_path()}", sys.executable, "-c", COUNTER + WORKER.format(work="spin()")]
    # unshare itself is not behind the gate: it waits for the worker and ends as that does.
    command = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", *program]
    tenant = rig.run(command, ROWEN_JOB_SPEC="{}", LD_PRELOAD="")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    outer = tenant.process.pid
    os.kill(int(Path(f"/proc/{outer}/task/{outer}/children").read_text()), signal.SIGTERM)
    assert ended(rig, tenant) == 1


def test_the_handler_of_any_other_program_runs_when_the_gate_opens(rig: Rig) -> None:
    engine = rig.engine()
    tenant = rig.tenant("import signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(7)); spin()")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.process.terminate()
    tenant.stands_still()
    assert tenant.process.poll() is None
    engine.call("idle")
    assert tenant.process.wait(20) == 7


def test_a_worker_outside_rowen_ends_at_once(tmp_path: Path) -> None:
    says = WORKER.format(work="[print('runs', flush=True), time.sleep(60)]")
    settings = environment(ROWEN_JOB_SPEC="{}")
    with subprocess.Popen(
        [sys.executable, "-c", "import time" + says], env=settings, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        process.terminate()
        assert process.wait(20) == 1


def processor_ns(pid: int) -> int:
    """What the threads of a process have run, in nanoseconds, without the one that stops the others."""
    names = thread_names(pid)
    tasks = [task for task, name in names.items() if not name.startswith("rowen")]
    return sum(int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0]) for task in tasks)


def stands_still(pid: int) -> bool:
    """Whether it runs nothing for a while. A thread that waited for a CPU when it was stopped runs into that later."""
    ran = processor_ns(pid)
    time.sleep(0.2)
    return processor_ns(pid) == ran


@pytest.mark.timeout(600)
def test_a_stopped_batch_worker_ends_at_once_with_the_rows_that_it_has(
    rig: Rig, tiny_model: Path, tmp_path: Path
) -> None:
    """Through a gate that closes while vLLM starts, too. The engine, a process of its own, stands still as well."""
    write_lines(tmp_path / "in.jsonl", requests(2000))
    output = tmp_path / "results.jsonl"
    job = BatchSpec(
        model=ModelLocation(name_or_path=str(tiny_model)),
        input=Location(where=str(tmp_path / "in.jsonl")),
        output=Location(where=str(output)),
        memory_bytes=3 * 2**30,
    )
    engine = rig.engine()
    log = ["sh", "-c", 'exec "$@" >"$LOG" 2>&1', "sh"]
    settings = {**environment(), **rig.environment(), "LOG": str(tmp_path / "log")}
    command = [*log, sys.executable, "-m", "rowen.runtime.batch"]
    tenant = rig.run(command, ROWEN_JOB_SPEC=job.model_dump_json(by_alias=True), **settings)
    while not output.exists() or output.stat().st_size == 0:
        assert tenant.process.poll() is None, (tmp_path / "log").read_text()[-4000:]
        engine.call("busy")
        rig.acknowledged()
        time.sleep(0.05)
        engine.call("idle")
        time.sleep(0.3)
    engine.call("busy")
    rig.acknowledged()
    children = Path(f"/proc/{tenant.process.pid}/task/{tenant.process.pid}/children").read_text().split()
    [core] = [child for child in children if "EngineCore" in Path(f"/proc/{child}/cmdline").read_text()]
    for process in (int(core), tenant.process.pid):
        until(lambda process=process: stands_still(process), "both processes stand still")  # type: ignore[misc]
    tenant.process.terminate()
    assert ended(rig, tenant) == 1
    *rows, _torn = output.read_text().split("\n")
    assert len({json.loads(row)["id"] for row in rows}) == len(rows)
    assert 0 < len(rows) < 2000
