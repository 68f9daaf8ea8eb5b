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
    """A cgroup of the freezer and one of cpuacct (version 1), for a pod of its own."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.uid = str(uuid.uuid4())
        self._kubelet = f"rowen-test-{os.getpid()}-{self.number}"
        name = f"{self._kubelet}/kubepods/pod{self.uid}"
        self.freezer, self.cpuacct = _ROOT / "freezer" / name, _ROOT / "cpuacct" / name
        for folder in (self.freezer, self.cpuacct):
            folder.mkdir(parents=True)

    def join(self) -> None:
        """Moves the calling process in; between fork() and exec()."""
        for folder in (self.freezer, self.cpuacct):
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def command(self, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """A command that moves itself in, and then has the environment: for where fork() is not safe."""
        script = 'echo $$ > "$1/cgroup.procs"; echo $$ > "$2/cgroup.procs"; shift 2; exec env "$@"'
        given = [f"{name}={value}" for name, value in environment.items()]
        return ["sh", "-c", script, "enter", str(self.freezer), str(self.cpuacct), *given, *command]

    def frozen(self) -> bool:
        """Whether everything in it is."""
        return (self.freezer / "freezer.state").read_text() == "FROZEN\n"

    def remove(self) -> None:
        """Once its processes have ended. May be called again."""
        self.thaw()
        for pod in (self.freezer, self.cpuacct):
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
