"""Two real vLLM servers of one model on one core, a plain one and one with Rowen's plugin, and others beside."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from colocation.sharing import members, pin
from rig.processes import MODEL_PROCESS, answers, every_core, start

from rowen.cluster.bare.server import free_port
from rowen.demo import samples

CORE = 1
MODEL = samples.MODEL
SERVERS = ("plain", "rowen")
_END_SECONDS = 20.0
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager",
    "--dtype=float32", "--max-model-len=512", "--max-num-seqs=16", "--kv-cache-memory-bytes=256M",
]  # fmt: skip


class TwoServers:
    """The servers and other processes, each by its name once it was started; a server without requests sleeps."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the model, and gets their logs."""
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._urls = {server: f"http://127.0.0.1:{free_port()}" for server in SERVERS}

    def url(self, server: str) -> str:
        """Of one of `SERVERS`."""
        return self._urls[server]

    def serve(self, server: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts a server, with more arguments and variables than all have."""
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self.folder / MODEL), "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", self.url(server).rpartition(":")[2], *_ENGINE_ARGUMENTS, *arguments,
        ]  # fmt: skip
        with every_core(CORE):
            self.start(server, command, environment)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Starts any other process; its id."""
        self._processes[name] = start(self.folder, name, command, environment)
        return self._processes[name].pid

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that was started."""
        return tuple(self._processes)

    def answers(self, server: str) -> bool:
        """Whether it is ready."""
        return answers(self.url(server))

    def settle(self) -> None:
        """Each server's model on the core, and the rest of the server beside it."""
        for server in set(SERVERS) & set(self._processes):
            for process in self.members(server):
                pin(process, {CORE} if _runs_model(process) else os.sched_getaffinity(0))

    def check(self, deadline: float) -> None:
        """Raises `RuntimeError` where one of them has ended, or it is too late."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                end = (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{end}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{', '.join(self._processes)} are not ready, or do not stand still, in time")

    def members(self, name: str) -> list[int]:
        """Its processes; none where it was not started."""
        return members(self._processes[name].pid) if name in self._processes else []

    def model_process(self, server: str) -> int:
        """That runs the model."""
        for process in self.members(server):
            if _runs_model(process):
                return process
        raise RuntimeError(f"{server} has no process of its model")

    def process(self, name: str) -> int:
        """Its id."""
        return self._processes[name].pid

    def end(self, name: str) -> None:
        """Ends it, with its children."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Ends everything."""
        for name in list(self._processes):
            self.end(name)


def _runs_model(process: int) -> bool:
    return MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes()
