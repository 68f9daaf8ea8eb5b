"""A cgroup for a tenant, as a kubelet makes one for a pod."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")

_END_LIMIT = 10.0
_CPU_FILES = ("cpu.shares", "cpu.weight")
_LIMIT_FILES = ("cpu.cfs_quota_us", "cpu.max")
_numbers = count()


class Pod:
    """A cgroup that the agent may freeze: one of version 2, or one of freezer and one of cpuacct."""

    def __init__(self, root: Path = ROOT, *, limited: bool = False) -> None:
        """`limited`: the agent may limit its CPU time, too. Raises `OSError` where this process may not make them."""
        self.number = next(_numbers)
        version_2 = (root / "cgroup.controllers").exists()
        controllers = ("freezer", "cpuacct", "cpu") if limited else ("freezer", "cpuacct")
        parents = [root] if version_2 else [root / name for name in controllers]
        self._folders = [parent / f"rowen-benchmark-{os.getpid()}-pod-{self.number}" for parent in parents]
        try:
            for folder in self._folders:
                folder.mkdir()
        except OSError:
            self.remove()
            raise

    @property
    def freezer(self) -> Path:
        """Where it is frozen."""
        return self._folders[0]

    @property
    def cpuacct(self) -> Path | None:
        """With version 1 where its CPU time is counted."""
        return self._folders[1] if len(self._folders) > 1 else None

    @property
    def cpu(self) -> Path | None:
        """With version 1 where its CPU time is limited."""
        return self._folders[2] if len(self._folders) > 2 else None

    @property
    def has_share(self) -> bool:
        """Whether the kernel gives it a share of the CPU of its own."""
        return any((folder / name).exists() for folder in self._folders for name in _CPU_FILES)

    @property
    def has_limit(self) -> bool:
        """Whether the kernel can limit its CPU time, with all that `limited` asks for."""
        return any((folder / name).exists() for folder in self._folders for name in _LIMIT_FILES)

    def entering(self, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """That command, which is in it before it has these variables.

        With the gate's library a process has threads that the agent raises, which the kernel may keep out of a cgroup.
        """
        script = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit; shift; done; shift; exec env "$@"'
        given = [f"{name}={value}" for name, value in environment.items()]
        return ["sh", "-c", script, "enter", *map(str, self._folders), "--", *given, *command]

    def join(self, process: int) -> None:
        """Moves a process in; its children are born there. Raises `OSError`."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(process))

    def remove(self) -> None:
        """Once its processes have ended."""
        end = time.monotonic() + _END_LIMIT
        for folder in self._folders:
            while folder.exists() and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.01)
