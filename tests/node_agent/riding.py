"""An engine and jobs at ride sockets, as this process or another one plays them."""

import contextlib
import socket
import subprocess
import sys
from multiprocessing.connection import wait
from pathlib import Path

from gate.pod import Pod

from rowen.crds.ride.messages import EngineHello, EngineState, Guest, JobHello, JobProgress, Leaver, StepSums, Welcome

SECONDS = 20.0
ASKS = """
import socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
line.send(sys.argv[2].encode())
print(line.recv(16384).decode(), flush=True)
sys.stdin.read()
"""


def connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(SECONDS)
    line.connect(str(path))
    return line


def received(line: socket.socket) -> tuple[bytes, list[socket.socket]]:
    """A message, and what came along; empty at the end."""
    data, files, _, _ = socket.recv_fds(line, 16384, 4)
    return data, [socket.socket(fileno=file) for file in files]


def has_ended(line: socket.socket) -> bool:
    """Waits for something to come: whether it is the end."""
    assert wait([line], SECONDS)
    with contextlib.suppress(ConnectionResetError):
        return not line.recv(16384)
    return True


def is_quiet(line: socket.socket) -> bool:
    """Whether nothing comes, and it does not end, for a moment."""
    return not wait([line], 0.2)


class Engine:
    """Takes riders in."""

    def __init__(self, path: Path, seats: int = 8) -> None:
        self.line = connected(path)
        self.line.send(EngineHello(seats=seats).model_dump_json(by_alias=True).encode())

    def guest(self) -> tuple[Guest, socket.socket]:
        data, (pair,) = received(self.line)
        return Guest.model_validate_json(data), pair

    def leaver(self) -> str:
        """Of the pod whose guest it is to let go."""
        return Leaver.model_validate_json(received(self.line)[0]).left

    def tell(self, ended: str | None = None, guests: tuple[str, ...] = (), **sums: float) -> None:
        state = EngineState(sums=StepSums.model_validate(sums), ended=ended, guests=guests)
        self.line.send(state.model_dump_json(by_alias=True).encode())


class Job:
    """Asks for its engine once."""

    def __init__(self, path: Path, *, pair: bool = True) -> None:
        self.line = connected(path)
        self.line.send(JobHello(pair=pair).model_dump_json(by_alias=True).encode())
        data, pairs = received(self.line)
        self.welcome = Welcome.model_validate_json(data)
        self.pair = pairs[0] if pairs else None

    @property
    def joined(self) -> socket.socket:
        assert self.pair is not None, self.welcome.reason
        return self.pair

    def progress(self, completed: int, total: int, tokens: int) -> None:
        report = JobProgress(completed=completed, total=total, tokens=tokens)
        self.line.send(report.model_dump_json(by_alias=True).encode())


class Process:
    """Says something at a socket, and stays; in a pod, where there is one."""

    def __init__(self, path: Path, hello: str, pod: Pod | None = None) -> None:
        command = [sys.executable, "-c", ASKS, str(path), hello]
        command = pod.command(command, {}) if pod else command
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.answer = self._process.stdout.readline()

    def end(self) -> None:
        self._process.communicate()
