"""Starts workers and talks to them."""

import ctypes
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.counters import Counters

BENCHMARKS = Path(__file__).parents[1]
NOBODY = 65534
_PIDFD_GETFD = 438


class WorkerError(RuntimeError):
    """A worker that ended, did not answer in time, or could not do what it was told."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a worker is started. `user`: the numeric user, None: as this process."""

    library: Path
    preload: bool = True
    trace: Path | None = None
    user: int | None = None
    environment: tuple[tuple[str, str], ...] = ()


class Process:
    """A worker."""

    def __init__(self, setting: Setting, counters: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS), **dict(setting.environment)}
        if setting.preload:
            environment["LD_PRELOAD"] = str(setting.library)
        if setting.trace:
            environment["ROWEN_RM_TRACE"] = str(setting.trace)
        self.counters = Counters(counters)
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "gpu.worker", str(setting.library), str(counters)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=setting.user,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._answer(120)

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def _answer(self, timeout: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise WorkerError(f"no answer within {timeout:.0f} s") from None
        if not line:
            raise WorkerError(f"ended with {self.popen.wait(10)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, do: str, timeout: float = 120, **arguments: Any) -> Any:
        """Has it do something. Raises `WorkerError`."""
        self.send(do, **arguments)
        return self.receive(timeout)

    def send(self, do: str, **arguments: Any) -> None:
        """The first half of `ask`."""
        assert self.popen.stdin is not None
        print(json.dumps({"do": do, **arguments}), file=self.popen.stdin, flush=True)

    def receive(self, timeout: float = 120) -> Any:
        """The second."""
        return self._answer(timeout).get("ok")

    def end(self) -> float:
        """Kills it; seconds until it was gone. Raises `WorkerError` when that takes more than 30 s."""
        begin = time.monotonic()
        self.popen.kill()
        try:
            self.popen.wait(30)
        except subprocess.TimeoutExpired:
            raise WorkerError("still there 30 s after SIGKILL") from None
        return time.monotonic() - begin


@contextmanager
def worker(setting: Setting) -> Iterator[Process]:
    """A worker, ended at the end."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o777)
        counters = Path(folder) / "counters"
        counters.touch()
        counters.chmod(0o666)
        process = Process(setting, counters)
        try:
            yield process
        finally:
            if process.popen.poll() is None:
                process.end()


def descriptor_of(pid: int, descriptor: int) -> int:
    """Another process's descriptor as one of our own (pidfd_getfd). Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    try:
        found = libc.syscall(_PIDFD_GETFD, pidfd, descriptor, 0)
    finally:
        os.close(pidfd)
    if found < 0:
        raise OSError(ctypes.get_errno(), f"pidfd_getfd({pid}, {descriptor})")
    return int(found)
