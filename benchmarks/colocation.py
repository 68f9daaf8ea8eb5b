"""A real vLLM server and fine-tuning tenants on one core, without Kubernetes; shared by benchmarks.

Two gates stand before the same core. The *managed* one closes while the engine has requests. The *free* one has an
engine of its own that never has any, so it stays open: its tenant is unmanaged, and yet its tokens are counted by the
same code. A tenant that is not part of a measurement is stopped by letting its gate's lease run out.
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

from rowen.crds.names import DEVICE_PAGE_ENV, JOB_SPEC_ENV, LIBRARY_ENV, TENANT_PAGE_ENV
from rowen.crds.offline_job import Lora
from rowen.crds.worker import ModelLocation, TuningSpec
from rowen.demo import samples
from rowen.node_agent.device import Device
from rowen.node_agent.native import library_path

CORE = 1
MODEL = "llama-demo"

_LEASE = 2.0
_RENEW = 0.25
_ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager",
    "--scheduler-cls", "rowen.runtime.vllm.scheduler.RowenScheduler",
    "--middleware", "rowen.runtime.vllm.middleware.LifecycleMiddleware",
    "--dtype=bfloat16", "--max-model-len=512", "--max-num-seqs=16", "--kv-cache-memory-bytes=256M",
]  # fmt: skip
_IDLE_ENGINE = """
import ctypes, os, sys
library = ctypes.CDLL(os.environ["ROWEN_LIBRARY"])
assert library.rowen_online_attach(os.fsencode(os.environ["ROWEN_DEVICE_PAGE"])) >= 0
print("attached", flush=True)
sys.stdin.read()
"""


class Gate:
    """A device of the core with its pages; held closed by letting its lease run out."""

    def __init__(self, directory: Path) -> None:
        """Makes the pages in `directory` and starts to serve the gate."""
        self._held = False
        self.device = Device(directory, slots=1, cpus=[CORE], backstop=0.05)
        self.renew()
        self.device.start()
        self._directory = directory
        # A gate opens only for an engine; this one is never busy.
        self._engine = subprocess.Popen(
            [sys.executable, "-c", _IDLE_ENGINE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | self.online_environment(),
        )
        assert self._engine.stdout is not None
        if self._engine.stdout.readline() != "attached\n":
            raise RuntimeError("the idle engine could not attach to the gate")

    def online_environment(self) -> dict[str, str]:
        """What the device plugin would give an engine."""
        return {LIBRARY_ENV: str(library_path()), DEVICE_PAGE_ENV: str(self._directory / "device.page")}

    def tenant_environment(self) -> dict[str, str]:
        """What the device plugin would give a tenant."""
        page = str(self._directory / "tenant-0.page")
        return self.online_environment() | {TENANT_PAGE_ENV: page, "LD_PRELOAD": str(library_path())}

    def renew(self) -> None:
        """Renews the lease, unless the gate is held."""
        if not self._held:
            self.device.renew(time.monotonic() + _LEASE)

    def hold(self, closed: bool) -> None:
        """Keeps the gate closed, or leaves it to the engines; returns when the tenant has stopped."""
        changed, self._held = closed != self._held, closed
        if changed and closed:
            self.device.renew(time.monotonic())
            time.sleep(_LEASE / 2)
        self.renew()

    def tokens(self) -> int:
        """Tokens that the tenant has processed."""
        return self.device.counts().tenants[0].tokens

    def close(self) -> None:
        """Stops serving."""
        self._engine.kill()
        self._engine.wait()
        self.device.close()


class Colocation:
    """An engine, a managed tenant and an unmanaged one on one core."""

    def __init__(self, folder: Path, managed: Gate, free: Gate) -> None:
        """Starts the engine and both tenants; wait with `wait_ready`."""
        self.managed, self.free = managed, free
        self._folder = folder
        self.url = f"http://127.0.0.1:{_free_port()}"
        self._engine = self._start("engine", self._engine_command(), managed.online_environment())
        tuning = [sys.executable, "-m", "rowen.runtime.tuning"]
        self._tenants = {
            name: self._start(name, tuning, gate.tenant_environment() | {JOB_SPEC_ENV: self._tuning_spec(name)})
            for name, gate in (("managed", managed), ("free", free))
        }

    def _engine_command(self) -> list[str]:
        return [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self._folder / MODEL), "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2], *_ENGINE_ARGUMENTS,
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
        # The engine loads its model on the other cores and comes to this one only then, so all load at once.
        for gate in (self.managed, self.free):
            while gate.device.counts().tenants[0].reports < 2:
                self._check(deadline, limit)
                time.sleep(0.1)
        self.arrange(None)
        while not self._answers():
            self._check(deadline, limit)
            time.sleep(0.5)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", trust_env=False, timeout=2).is_success
        except httpx.HTTPError:
            return False

    def _check(self, deadline: float, limit: float) -> None:
        for name, process in {"engine": self._engine, **self._tenants}.items():
            if process.poll() is not None:
                end = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{end}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"engine and tenants are not ready after {limit:.0f} s")

    def arrange(self, tenant: str | None) -> None:
        """Lets one tenant on the core (`managed` or `free`), or none."""
        self.managed.hold(tenant != "managed")
        self.free.hold(tenant != "free")

    def stop(self) -> None:
        """Ends what was started, with its children."""
        for process in (*self._tenants.values(), self._engine):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def colocated(folder: Path, *, ready_limit: float) -> Iterator[Colocation]:
    """An engine and two tenants on one core, ready; everything else is on the other cores.

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
            gate = Gate(pages / name)
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


def _python_path() -> dict[str, str]:
    # Children run in another folder, where relative entries would lead nowhere.
    return {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
