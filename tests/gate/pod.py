"""Cgroups as a kubelet makes them for pods, for processes that a test starts."""

import contextlib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_numbers = count()


class Pod:
    """Cgroups of freezer and cpuacct (version 1), for a pod of its own."""

    def __init__(self, *, limited: bool = False) -> None:
        """`limited`: one of cpu, too, in which the kernel gives no thread a real-time priority."""
        self.number = next(_numbers)
        self.uid = str(uuid.uuid4())
        self._kubelet = f"rowen-test-{os.getpid()}-{self.number}"
        name = f"{self._kubelet}/kubepods/pod{self.uid}"
        self.freezer, self.cpuacct, self.cpu = (_ROOT / each / name for each in ("freezer", "cpuacct", "cpu"))
        self.folders = (self.freezer, self.cpuacct, self.cpu) if limited else (self.freezer, self.cpuacct)
        """Of each controller."""
        for folder in self.folders:
            folder.mkdir(parents=True)

    def directories(self) -> tuple[int | str, ...]:
        """Its number and its folders, as an agent of another process is told them."""
        return self.number, *map(str, self.folders)

    def join(self) -> None:
        """Moves the calling process in; between fork() and exec()."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def command(self, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """A command that moves itself in, and then has the environment: for where fork() is not safe."""
        script = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec env "$@"'
        given = [f"{name}={value}" for name, value in environment.items()]
        return ["sh", "-c", script, "enter", *map(str, self.folders), "--", *given, *command]

    def frozen(self) -> bool:
        """Whether everything in it is."""
        return (self.freezer / "freezer.state").read_text() == "FROZEN\n"

    def remove(self) -> None:
        """Once its processes have ended. May be called again."""
        self.thaw()
        for pod in self.folders:
            for folder in (pod, *pod.parents[:2]):
                end = time.monotonic() + 10
                while folder.exists() and time.monotonic() < end:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                        break
                    time.sleep(0.005)

    def thaw(self) -> None:
        """Lets everything in it go on."""
        with contextlib.suppress(FileNotFoundError):
            (self.freezer / "freezer.state").write_text("THAWED")
