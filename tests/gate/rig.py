"""A device with real processes on it: engines that say busy and idle, tenants behind the gate."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gate.pod import Pod

from rowen.node_agent.attach.door import Door
from rowen.node_agent.attach.entrance import Doorway
from rowen.node_agent.devices.allocation import SOCKET
from rowen.node_agent.devices.backend import Backend, Gate
from rowen.node_agent.devices.device import Device
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.native import library_path

DEADLINE = 60.0
DOOR_LATE = (-errno.ETIMEDOUT, -errno.ECONNRESET)
"""What an engine hears whose agent got no CPU for a second or two. Its library goes on asking by itself."""

ENGINE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.rowen_online_attach.argtypes = [ctypes.c_char_p]
library.rowen_online_step.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
library.rowen_online_record.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_uint32] * 2
attach = lambda: library.rowen_online_attach(sys.argv[2].encode())
print(attach(), flush=True)
for line in sys.stdin:
    name, *arguments = line.split()
    call = attach if name == "attach" else getattr(library, "rowen_online_" + name)
    print(call(*map(int, arguments)), flush=True)
"""

COUNTER = """
import mmap, os, threading, time
_pages = open(os.environ["COUNTS"], "r+b")
_counts = mmap.mmap(_pages.fileno(), 4096)
def count(index=0):
    value = int.from_bytes(_counts[8 * index : 8 * index + 8], "little") + 1
    _counts[8 * index : 8 * index + 8] = value.to_bytes(8, "little")
def spin(index=0):
    while True:
        count(index)
"""


def until(condition: Callable[[], bool], what: str = "condition") -> None:
    """Polls; fails when the condition does not come true in time."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not in time: {what}")
        time.sleep(0.002)


def freeze(pid: int) -> None:
    """Stops a program, control thread and all, so that it cannot acknowledge."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    until(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir()), "it is stopped")


class Engine:
    """A process of an online engine."""

    def __init__(self, socket: Path | str, library: Path | None = None) -> None:
        """`socket`: its device's; of several devices all, separated by colons."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(library or library_path()), str(socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.attached = self._answer()

    def _answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline().replace("None", "0"))

    def call(self, name: str, *arguments: int) -> int:
        """Calls `rowen_online_<name>`."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([name, *map(str, arguments)]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Tenant:
    """A program behind the gate, that counts in shared memory."""

    def __init__(self, process: "subprocess.Popen[str]", counts: Path) -> None:
        self.process = process
        self._counts = counts

    def counts(self, number: int = 1) -> list[int]:
        data = self._counts.read_bytes()
        return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(number)]

    def advances(self, number: int = 1) -> None:
        """Waits until every one of the counters has moved."""
        before = self.counts(number)
        until(
            lambda: all(now > then for now, then in zip(self.counts(number), before, strict=True)),
            f"the tenant runs ({before}, exit {self.process.poll()})",
        )

    def tell(self) -> None:
        """Sets the second counter, for a program that waits for it."""
        with self._counts.open("r+b") as file:
            file.seek(8)
            file.write(b"\1")

    def stands_still(self, number: int = 1) -> None:
        """Fails if any counter moves while this process looks away for some scheduling rounds."""
        before = self.counts(number)
        for _ in range(30):
            time.sleep(0.001)
            assert self.counts(number) == before, "the tenant ran behind a closed gate"

    def _runnable(self) -> bool:
        return ") R " in Path(f"/proc/{self.process.pid}/stat").read_text()

    def _rests(self) -> bool:
        before = self.counts()
        if self._runnable():
            return False
        time.sleep(0.02)
        return not self._runnable() and self.counts() == before

    def stops(self) -> None:
        """Waits until its first thread, which counts and does nothing else, is stopped and not only short of CPU time.

        For a close whose acknowledgement nobody awaits.
        """
        until(self._rests, "the tenant stops by itself")

    def freeze(self) -> None:
        """Stops the program, control thread and all, so that it cannot acknowledge."""
        freeze(self.process.pid)

    def kill(self) -> None:
        """Ends the program and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def thread_names(pid: int) -> dict[int, str]:
    """By thread id; a thread that ends meanwhile has none."""
    names = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names[int(task.name)] = (task / "comm").read_text().rstrip("\n")
    return names


def socket_in(folder: Path, slot: int | None) -> Path:
    """Of a slot's pod, or the engines'."""
    return folder / ("engine" if slot is None else f"tenant-{slot}") / SOCKET


def acknowledged(device: Gate) -> bool:
    """Whether the gate is closed, and the agent has seen that close through."""
    if device.counts().gate_open:
        return False
    found = device.closings(0)
    return bool(found) and found[-1].opened is None and found[-1].acknowledged is not None


class Agent:
    """Serves a device and its doors, in this process."""

    def __init__(
        self,
        folder: Path,
        cpus: Sequence[int],
        backstop: float,
        pods: Sequence[tuple[int | str, ...]],
        *,
        memory: tuple[int, int] | None = None,
        backend: Backend | None = None,
    ) -> None:
        """`pods`: number and directories (freezer, cpuacct, or cpu, too) of each slot's.

        `memory`: handles of a pool and their bytes. `backend`: serves the device in the place of all this.
        """
        self.device: Gate
        if backend is not None:
            self.device = backend.open(folder, backstop=backstop)
        else:
            pool = Pool(*memory) if memory else None
            self.device = Device(folder, slots=len(pods), cpus=cpus, backstop=backstop, pool=pool)
        self.door = Door()
        slots = (None, *range(len(pods)))
        self.door.open(self.device, [Doorway(socket_in(folder, slot), slot) for slot in slots])
        for slot, (number, *directories) in enumerate(pods):
            self.device.set_pod(slot, int(number), *map(Path, directories))
        self.device.start()
        self.door.start()

    def close(self) -> None:
        """Ends as an agent does."""
        self.door.close()
        self.device.close()


class Rig:
    """A device in a folder of shared memory, with its doors."""

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 2,
        cpus: tuple[int, ...],
        backstop: float = 5.0,
        memory: tuple[int, int] | None = None,
        backend: Backend | None = None,
        limited: bool = False,
    ) -> None:
        """`limited`: its pods' CPU time can be."""
        self.folder = folder
        self.memory = memory
        self.backend = backend
        self.cpus = cpus
        self.slots = slots
        self.backstop = backstop
        self._cleanup: list[Callable[[], None]] = []
        self._tenants = 0
        self.pods = [Pod(limited=limited) for _ in range(slots)]
        self.serve().renew(time.monotonic() + 3600)

    def serve(self) -> Gate:
        """A new agent for the device."""
        self.agent = Agent(
            self.folder,
            self.cpus,
            self.backstop,
            self.pod_arguments(),
            memory=self.memory,
            backend=self.backend,
        )
        self.device = self.agent.device
        return self.device

    def on_close(self, clean: Callable[[], None]) -> None:
        """Has something called when the device is done with."""
        self._cleanup.append(clean)

    def pod_arguments(self) -> list[tuple[int | str, ...]]:
        """What an agent has to know of the slots' pods."""
        return [pod.directories() for pod in self.pods]

    def share_pod(self, slot: int, pod: Pod) -> None:
        """Gives a slot to a pod that has one of another device too."""
        self.pods[slot].remove()
        self.pods[slot] = pod
        self.device.set_pod(slot, pod.number, *pod.folders)

    def socket(self, slot: int | None) -> Path:
        """Of a slot's pod, or the engines'."""
        return socket_in(self.folder, slot)

    def engine(self, library: Path | None = None) -> Engine:
        engine = Engine(self.socket(None), library)
        self._cleanup.append(engine.kill)
        if engine.attached in DOOR_LATE:
            until(lambda: engine.call("attach") == 0, "the engine has attached")
        else:
            assert engine.attached == 0
        return engine

    def environment(self, slot: int = 0) -> dict[str, str]:
        self._tenants += 1
        counts = self.folder / f"counts-{self._tenants}"
        counts.write_bytes(bytes(4096))
        return {
            **os.environ,
            "LD_PRELOAD": str(library_path()),
            "ROWEN_TENANT_SOCKETS": str(self.socket(slot)),
            "ROWEN_LIBRARY": str(library_path()),
            "COUNTS": str(counts),
            "OPENBLAS_NUM_THREADS": "2",
        }

    def entering(self, slot: int | None) -> Callable[[], None] | None:
        """What a process does first to be in its pod; engines need none here."""
        return None if slot is None else self.pods[slot].join

    def run(self, command: list[str], slot: int = 0, before: Callable[[], None] | None = None, **extra: str) -> Tenant:
        environment = {**self.environment(slot), **extra}

        def enter() -> None:
            self.pods[slot].join()
            if before:
                before()

        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=enter,
        )
        tenant = Tenant(process, Path(environment["COUNTS"]))
        self._cleanup.append(tenant.kill)
        return tenant

    def tenant(self, code: str, slot: int = 0, **extra: str) -> Tenant:
        """A Python program behind the gate; `count(i)` and `spin(i)` move counter i."""
        return self.run([sys.executable, "-c", COUNTER + textwrap.dedent(code)], slot, **extra)

    def acknowledged(self) -> None:
        """Waits until the agent has seen the last close through."""
        until(lambda: acknowledged(self.device), "the close is acknowledged")

    def opened(self) -> None:
        until(lambda: self.device.counts().gate_open, "the gate is open")

    def close(self) -> None:
        # An agent would freeze again what is thawed here, and what is frozen does not take SIGKILL.
        self.agent.close()
        for pod in self.pods:
            pod.thaw()
        for clean in reversed(self._cleanup):
            clean()
        for pod in self.pods:
            pod.remove()
