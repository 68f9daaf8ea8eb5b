"""Real vLLM servers and fine-tuning tenants on one core, without Kubernetes; shared by benchmarks.

One server has Rowen's plugin, the other, *plain*, does not. Requests go to one of them at a time; a server without
requests sleeps.

Two gates stand before the same core. The *managed* one closes while the engine has requests. The *free* one has an
engine of its own that never has any, so it stays open: its tenant is left to the kernel, and yet its tokens are counted
by the same code. A tenant that is not part of a measurement is stopped by letting its gate's lease run out.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from colocation.device_gate import Gate
from colocation.flags import FLAGS_ENV, Flags
from colocation.sharing import members, pin
from rig.processes import MODEL_PROCESS, answers, every_core, start

from rowen.cluster.bare.server import free_port
from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import BatchSpec, Location, ModelLocation, TuningSpec
from rowen.crds.names import JOB_SPEC_ENV
from rowen.demo import samples
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.batch.weights import weights_bytes

CORE = 1
MODEL = "llama-demo"
SIZES = {"large": samples.SHAPE, "small": replace(samples.SHAPE, layers=4, hidden=512, intermediate=1024, heads=8)}
"""Of the model; `large` is the demo's."""
JOBS = {"tuner": "tuning", "batch": "batch"}
"""Job kind → the worker's package."""

_BATCH_ROWS = 20000
"""More than a run gets through."""
_BATCH_CACHE_BYTES = 128 * 2**20

_RENEW = 0.25
_END_LIMIT = 20.0
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager",
    "--dtype=float32", "--max-model-len=512", "--max-num-seqs=16", "--kv-cache-memory-bytes=256M",
]  # fmt: skip
_PLUGIN_ARGUMENTS = [
    "--scheduler-cls", "colocation.flagged_scheduler.FlaggedScheduler",
    "--middleware", "rowen.runtime.vllm.middleware.LifecycleMiddleware",
]  # fmt: skip


class Colocation:
    """Two engines, a managed tenant and an unmanaged one on one core."""

    def __init__(self, folder: Path, job: str, managed: Gate, free: Gate, flags: Path) -> None:
        """Starts the engines and both tenants, of a job kind of `JOBS`; wait with `wait_ready`."""
        self.managed, self.free, self.flags = managed, free, Flags(flags)
        self._folder, self._job = folder, job
        self.url, self.plain_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        engine, plain = [*self._engine_command(self.url), *_PLUGIN_ARGUMENTS], self._engine_command(self.plain_url)
        tenant = [sys.executable, "-m", "colocation.colocated_job", JOBS[job], str(flags)]
        with every_core(CORE):
            self._processes = {
                "engine": start(folder, "engine", engine, managed.online_environment() | {FLAGS_ENV: str(flags)}),
                "plain": start(folder, "plain", plain, {}),
            }
        for name, gate in (("managed", managed), ("free", free)):
            environment = gate.tenant_environment() | {JOB_SPEC_ENV: json.dumps(self._spec(name).to_wire())}
            self._processes[name] = start(folder, name, tenant, environment)
            gate.adopt(self._processes[name].pid)

    def _engine_command(self, url: str) -> list[str]:
        return [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self._folder / MODEL), "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", url.rpartition(":")[2], *_ENGINE_ARGUMENTS,
        ]  # fmt: skip

    def _spec(self, name: str) -> TuningSpec | BatchSpec:
        model = ModelLocation(name_or_path=str(self._folder / MODEL))
        if self._job == "batch":
            weights = weights_bytes(self._folder / MODEL, FLOAT32)
            return BatchSpec(
                model=model,
                input=Location(where=str(self._folder / "requests.jsonl")),
                output=Location(where=str(self._folder / f"answers-{name}.jsonl")),
                memory_bytes=OVERHEAD_BYTES + weights + _BATCH_CACHE_BYTES,
            )
        # Small steps, so that tokens are counted finely; no checkpoint or end within a run.
        return TuningSpec(
            base_model=model,
            dataset=Location(where=str(self._folder / "support.jsonl")),
            output=Location(where=str(self._folder / f"adapter-{name}")),
            lora=Lora(),
            epochs=1000,
            batch_size=1,
            sequence_length=32,
            learning_rate=0.001,
            held_out_fraction=0.0,
            checkpoint_steps=100000,
            seed=0,
        )

    def wait_ready(self, limit: float) -> None:
        """Waits until both tenants make progress and the engine answers; then the core is the engine's alone.

        Raises:
            RuntimeError: It takes more than `limit` seconds, or one of them ended.
        """
        deadline = time.monotonic() + limit
        for gate in (self.managed, self.free):
            while gate.device.counts().tenants[0].reports < 2:
                self._check(deadline, limit)
                time.sleep(0.1)
        self.arrange(None)
        for url in (self.url, self.plain_url):
            while not answers(url):
                self._check(deadline, limit)
                time.sleep(0.5)
        self._pin("engine")
        self._pin("plain")

    def _pin(self, engine: str) -> None:
        # Engines load on all cores, which is faster. Then the process that runs the model has this one, where the
        # plugin pins it too, and all others, the server among them, have the rest.
        for process in self.members(engine):
            runs_model = MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes()
            pin(process, {CORE} if runs_model else os.sched_getaffinity(0))

    def _check(self, deadline: float, limit: float) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                end = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{end}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"engines and tenants are not ready after {limit:.0f} s")

    def members(self, name: str) -> list[int]:
        """Processes of `engine`, `plain`, `managed` or `free`."""
        return members(self._processes[name].pid)

    def arrange(self, tenant: str | None) -> None:
        """Lets one tenant on the core (`managed` or `free`), or none."""
        self.managed.hold(tenant != "managed")
        self.free.hold(tenant != "free")

    def stop(self) -> None:
        """Ends what was started, with its children."""
        # Engines that are killed at once leave semaphores behind.
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + _END_LIMIT
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def colocated(folder: Path, size: str, job: str, *, ready_limit: float) -> Iterator[Colocation]:
    """Two engines and two tenants on one core, ready; everything else is on the other cores.

    A model of a size of `SIZES`, a job of a kind of `JOBS`.

    Raises:
        RuntimeError: They do not get ready within `ready_limit` seconds.
    """
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise RuntimeError("one core is too few: the engine needs one of its own")
    os.sched_setaffinity(0, others)
    flags = folder / "flags"
    Flags(flags)
    with contextlib.redirect_stdout(sys.stderr):
        samples.write_model(folder / MODEL, SIZES[size])
        samples.write_lines(folder / "support.jsonl", samples.dialogues(samples.DIALOGUES))
        samples.write_lines(folder / "requests.jsonl", samples.requests(_BATCH_ROWS))
    pages = Path("/dev/shm") / f"rowen-benchmark-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, pages, ignore_errors=True)
        gates = []
        for name in ("managed", "free"):
            gate = Gate(pages / name, CORE, flags)
            stack.callback(gate.close)
            gates.append(gate)
        stack.enter_context(_renewing(gates))
        colocation = Colocation(folder, job, *gates, flags)
        stack.callback(colocation.stop)
        colocation.wait_ready(ready_limit)
        yield colocation


@contextlib.contextmanager
def _renewing(gates: list[Gate]) -> Iterator[None]:
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(_RENEW):
            for gate in gates:
                gate.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
