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
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from device_gate import Gate
from sharing import members, pin

from rowen.crds.names import JOB_SPEC_ENV
from rowen.crds.offline_job import Lora
from rowen.crds.worker import ModelLocation, TuningSpec
from rowen.demo import samples

CORE = 1
MODEL = "llama-demo"

_RENEW = 0.25
_END_LIMIT = 20.0
_MODEL_PROCESS = b"VLLM::EngineCore"
_ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager",
    "--dtype=bfloat16", "--max-model-len=512", "--max-num-seqs=16", "--kv-cache-memory-bytes=256M",
]  # fmt: skip
_PLUGIN_ARGUMENTS = [
    "--scheduler-cls", "rowen.runtime.vllm.scheduler.RowenScheduler",
    "--middleware", "rowen.runtime.vllm.middleware.LifecycleMiddleware",
]  # fmt: skip


class Colocation:
    """Two engines, a managed tenant and an unmanaged one on one core."""

    def __init__(self, folder: Path, managed: Gate, free: Gate) -> None:
        """Starts the engines and both tenants; wait with `wait_ready`."""
        self.managed, self.free = managed, free
        self._folder = folder
        self.url, self.plain_url = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        engine, plain = [*self._engine_command(self.url), *_PLUGIN_ARGUMENTS], self._engine_command(self.plain_url)
        tuning = [sys.executable, "-m", "rowen.runtime.tuning"]
        with _every_core():
            self._processes = {
                "engine": self._start("engine", engine, managed.online_environment()),
                "plain": self._start("plain", plain, {}),
            }
        for name, gate in (("managed", managed), ("free", free)):
            environment = gate.tenant_environment() | {JOB_SPEC_ENV: self._tuning_spec(name)}
            self._processes[name] = self._start(name, tuning, environment)
            gate.adopt(self._processes[name].pid)

    def _engine_command(self, url: str) -> list[str]:
        return [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self._folder / MODEL), "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", url.rpartition(":")[2], *_ENGINE_ARGUMENTS,
        ]  # fmt: skip

    def _tuning_spec(self, name: str) -> str:
        # Small steps, so that tokens are counted finely; no checkpoint or end within a run.
        spec = TuningSpec(
            base_model=ModelLocation(name_or_path=str(self._folder / MODEL)),
            dataset_path=str(self._folder / "support.jsonl"),
            output_path=str(self._folder / f"adapter-{name}"),
            lora=Lora(),
            epochs=1000,
            batch_size=1,
            sequence_length=32,
            learning_rate=0.001,
            held_out_fraction=0.0,
            checkpoint_steps=100000,
            seed=0,
        )
        return json.dumps(spec.to_wire())

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                arguments,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                # A group to end as one, but of this session: the kernel shares a core out by session, and between
                # two of them it let an engine that sleeps for moments all but starve a tenant of the same weight.
                process_group=0,
                env=os.environ | _ENGINE_ENVIRONMENT | _python_path() | environment,
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
            while not _answers(url):
                self._check(deadline, limit)
                time.sleep(0.5)
        self._pin("engine")
        self._pin("plain")

    def _pin(self, engine: str) -> None:
        # Engines load on all cores, which is faster. Then the process that runs the model has this one, where the
        # plugin pins it too, and all others, the server among them, have the rest.
        for process in self.members(engine):
            runs_model = _MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes()
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
def colocated(folder: Path, *, ready_limit: float) -> Iterator[Colocation]:
    """Two engines and two tenants on one core, ready; everything else is on the other cores.

    Raises:
        RuntimeError: They do not get ready within `ready_limit` seconds.
    """
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise RuntimeError("one core is too few: the engine needs one of its own")
    os.sched_setaffinity(0, others)
    with contextlib.redirect_stdout(sys.stderr):
        samples.write_model(folder / MODEL, samples.SHAPE)
        samples.write_lines(folder / "support.jsonl", samples.dialogues(samples.DIALOGUES))
    pages = Path("/dev/shm") / f"rowen-benchmark-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, pages, ignore_errors=True)
        gates = []
        for name in ("managed", "free"):
            gate = Gate(pages / name, CORE)
            stack.callback(gate.close)
            gates.append(gate)
        stack.enter_context(_renewing(gates))
        colocation = Colocation(folder, *gates)
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


@contextlib.contextmanager
def _every_core() -> Iterator[None]:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own | {CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False, timeout=2).is_success
    except httpx.HTTPError:
        return False


def _python_path() -> dict[str, str]:
    # Children run in another folder, where relative entries would lead nowhere.
    return {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
