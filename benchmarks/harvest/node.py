"""A real vLLM server and a real batch worker on one core and one pool of memory, without Kubernetes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from colocation.sharing import members, pin
from harvest.arms import Division, Shares
from harvest.load import MAX_TOKENS, SEQUENCES, SPEED, STEP_TOKENS, Memory
from harvest.tally import Counts, Order, Tally
from rig.processes import MODEL_PROCESS, answers, every_core, start, with_plugin
from rig.served_device import ServedDevice

from rowen.cluster.bare.server import free_port
from rowen.crds.names import POOL_BYTES_ENV
from rowen.demo import samples
from rowen.node_agent.memory.pool import Pool

CORE = 1
SHAPE = samples.Shape(layers=8, hidden=256, intermediate=512, heads=4, key_value_heads=4)
"""Much memory for little work: a token's keys and values take 16 KiB in it."""
_TOKEN_BYTES = 16 * 1024
_HANDLE_BYTES = 512 * 1024
MEMORY = Memory(handles=64, handle_tokens=_HANDLE_BYTES // _TOKEN_BYTES)
START_SECONDS = 60.0
"""Of the trace, in which a worker that was killed is not there again."""

_BACKSTOP_SECONDS = 0.05
_LEASE_SECONDS = 2.0
_LOOK_SECONDS = 0.004
_RENEW_SECONDS = 0.25
_READY_SECONDS = 600.0
_END_SECONDS = 20.0
_POLL_SECONDS = 0.5
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager", "--dtype=float32", f"--max-model-len={MAX_TOKENS}", f"--max-num-seqs={SEQUENCES}",
    # All arms send the same prompts: none may find those of the last one.
    "--no-enable-prefix-caching",
    f"--max-num-batched-tokens={STEP_TOKENS}", f"--block-size={MEMORY.handle_tokens}",
]  # fmt: skip


@dataclass
class Seen:
    """What was seen while arms had their turns."""

    down_seconds: float = 0.0
    """With the worker killed, and not there again."""
    down_open_seconds: float = 0.0
    """Of these with the gate open."""
    worker_handle_seconds: float = 0.0
    """What the worker held, summed over the time."""
    engine_use: list[tuple[float, int]] = field(default_factory=list)
    """When (seconds, monotonic), and the handles that the engine used or wanted."""

    @property
    def engine_peak(self) -> int:
        """Most handles that the engine used or wanted."""
        return max((handles for _, handles in self.engine_use), default=0)


class HarvestNode:
    """Serves the device, and has an arm divide its pool, on a thread of its own."""

    def __init__(self, folder: Path, pages: Path) -> None:
        """`folder` for files, `pages` of shared memory. Starts the server; go on with `wait_ready`."""
        self._folder, self._lock, self._ended = folder, threading.RLock(), threading.Event()
        self._served = ServedDevice(
            pages, slots=1, cpu=CORE, backstop=_BACKSTOP_SECONDS, pool=Pool(MEMORY.handles, _HANDLE_BYTES)
        )
        self._served.make_pods(with_share=False)
        self.device = self._served.device
        assert self.device.loans is not None
        self.shares = Shares(self.device.loans, MEMORY.handles)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._held, self._renewed = False, 0.0
        self._division: Division | None = None
        self._tally = Tally(folder / "tally")
        self._order = Order()
        self.seen = Seen()
        """Since this was set anew."""
        self._plugin = with_plugin(folder)
        with every_core(CORE):
            self._engine = self._start("engine", self._engine_command(), self._served.engine_environment())
        self._worker: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _engine_command(self) -> list[str]:
        return [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self._folder / samples.MODEL), "--served-model-name", samples.MODEL,
            "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2], *_ENGINE_ARGUMENTS,
        ]  # fmt: skip

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        own = {POOL_BYTES_ENV: str(MEMORY.handles * _HANDLE_BYTES)}
        return start(self._folder, name, command, self._plugin | own | environment)

    def kill_worker(self) -> None:
        """The batch worker loses all that it has in memory, and is away for as long as a start takes.

        Nothing happens while it is away.
        """
        if time.monotonic() < self._order.down_until:
            return
        self._order = Order(self._order.kills + 1, time.monotonic() + START_SECONDS / SPEED)
        self._tally.tell(self._order)

    @property
    def kills(self) -> int:
        """So far."""
        return self._order.kills

    def counts(self) -> Counts:
        """Of the worker so far."""
        return self._tally.read()

    def hold(self, closed: bool) -> None:
        """Keeps the gate closed, or leaves it to the engine."""
        with self._lock:
            self._held, self._renewed = closed, 0.0
            if closed:
                self.device.renew(time.monotonic())

    @contextmanager
    def divided(self, division: Division, settle: Callable[[], None] = lambda: None) -> Iterator[None]:
        """An arm has its turn. `settle` is called when it has begun, before any time passes for it."""
        with self._lock:
            division.enter()
        settle()
        with self._lock:
            self._division = division
        try:
            yield
        finally:
            with self._lock:
                self._division = None

    def _keep(self) -> None:
        last, idle = time.monotonic(), self.device.counts().idle_seconds
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                now, counts = time.monotonic(), self.device.counts()
                if not self._held and now - self._renewed >= _RENEW_SECONDS:
                    self.device.renew(now + _LEASE_SECONDS)
                    self._renewed = now
                if self._division is not None:
                    self._division.look(now, gate_open=counts.gate_open)
                    self._note(now, now - last, counts.idle_seconds - idle)
                last, idle = now, counts.idle_seconds

    def _note(self, now: float, seconds: float, gate_open: float) -> None:
        status, seen = self.shares.status(), self.seen
        worker, engine = self.shares.member(status, 0), self.shares.member(status, None)
        if worker is not None:
            seen.worker_handle_seconds += worker.held * seconds
        if engine is not None:
            seen.engine_use.append((now, max(engine.used, engine.wanted)))
        if now < self._order.down_until:
            seen.down_seconds += seconds
            # Gate and kills have to do with each other: no product of two means would say this.
            seen.down_open_seconds += gate_open

    def wait_ready(self) -> None:
        """Waits for the server, then starts the worker: without an engine the gate is closed, and it would not get far.

        Then the core is theirs alone. Raises `RuntimeError` when one of them ends or takes too long.
        """
        self._wait(lambda: answers(self.url), "the server answers")
        # As in `colocation/colocation.py`: what runs the model has the core, the rest of the server the others.
        for process in members(self._engine.pid):
            runs_model = MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes()
            pin(process, {CORE} if runs_model else os.sched_getaffinity(0))
        command = [
            sys.executable, "-m", "harvest.worker",
            str(self._folder / samples.MODEL), str(self._folder / "tally"), str(MEMORY.handle_tokens),
        ]  # fmt: skip
        self._worker = self._start("worker", command, self._served.tenant_environment(0))
        self._served.adopt(0, self._worker.pid)
        self._wait(lambda: self.counts().ready, "the worker is ready")

    def wait_worker(self) -> None:
        """Waits until the worker is not away any more. Raises `RuntimeError` when a process has ended."""
        self._wait(lambda: time.monotonic() >= self._order.down_until, "the worker is there")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _READY_SECONDS
        while not holds():
            for name, process in (("engine", self._engine), ("worker", self._worker)):
                if process is not None and process.poll() is not None:
                    text = (self._folder / f"{name}.log").read_text(errors="replace")
                    raise RuntimeError(f"the {name} ended with {process.returncode}:\n{text[-3000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"not within {_READY_SECONDS:.0f} s: {what}")
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Ends everything."""
        self._ended.set()
        self._thread.join()
        with ExitStack() as stack:
            stack.callback(self._served.close)
            for process in filter(None, (self._worker, self._engine)):
                stack.callback(_end, process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    # A server that is killed at once leaves semaphores behind.
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
