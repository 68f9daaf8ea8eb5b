"""Cgroups of the kernel that runs the tests, with real processes in them, and the handle under test."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.rig import until

from rowen.node_agent.native import library_path

PREFIX = "rowen-test-"
# Enters the cgroups that are named first, then becomes the program.
_ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit; shift; done; shift; exec "$@"'


class CgroupStruct(ctypes.Structure):
    """`struct rowen_cgroup`."""

    _fields_ = [
        ("directory", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("state", ctypes.c_int32),
        ("usage", ctypes.c_int32),
        ("system", ctypes.c_int32),
        ("kill", ctypes.c_int32),
        ("version", ctypes.c_uint32),
        ("quota", ctypes.c_int32),
        ("period", ctypes.c_int32),
        ("weight", ctypes.c_int32),
    ]

    def descriptors(self) -> set[int]:
        named = {self.directory, self.request, self.state, self.usage, self.system, self.kill}
        return (named | {self.quota, self.period, self.weight}) - {-1}


def native() -> Any:
    library = ctypes.CDLL(str(library_path()))
    handle = ctypes.POINTER(CgroupStruct)
    library.rowen_cgroup_open.argtypes = [handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p]
    library.rowen_cgroup_weight.argtypes = [handle, ctypes.POINTER(ctypes.c_int64)]
    library.rowen_cgroup_set_weight.argtypes = [handle, ctypes.c_int64]
    for name in ("limit", "set_limit"):
        getattr(library, f"rowen_cgroup_{name}").argtypes = [handle, ctypes.POINTER(ctypes.c_int64)]
    library.rowen_cgroup_usage.argtypes = [handle, ctypes.POINTER(ctypes.c_uint64)]
    library.rowen_cgroup_processes.argtypes = [handle, ctypes.POINTER(ctypes.c_int32), ctypes.c_uint32]
    for name in ("freeze", "frozen", "requested", "thaw", "kill", "close"):
        getattr(library, f"rowen_cgroup_{name}").argtypes = [handle]
    library.rowen_cgroup_close.restype = None
    return library


class Handle:
    """An open cgroup. What the functions return is returned."""

    def __init__(self, directory: Path, cpuacct: Path | None, cpu: Path | None = None) -> None:
        self.struct = CgroupStruct()
        self._native = native()
        others = [None if each is None else os.fsencode(each) for each in (cpuacct, cpu)]
        self.opened: int = self._native.rowen_cgroup_open(self.struct, os.fsencode(directory), *others)

    def call(self, name: str) -> int:
        """Calls freeze, frozen, requested, thaw or kill."""
        return int(getattr(self._native, f"rowen_cgroup_{name}")(self.struct))

    def usages(self) -> tuple[int, int, int]:
        """0 or an error; nanoseconds of programs and of the kernel for them."""
        usages = (ctypes.c_uint64 * 2)()
        return self._native.rowen_cgroup_usage(self.struct, usages), usages[0], usages[1]

    def limit(self) -> tuple[int, int, int]:
        """0 or an error; microseconds in each period (-1: any), and of a period."""
        limit = (ctypes.c_int64 * 2)()
        return self._native.rowen_cgroup_limit(self.struct, limit), limit[0], limit[1]

    def set_limit(self, quota: int, period: int) -> int:
        """As `limit` gives it. 0 or an error."""
        return int(self._native.rowen_cgroup_set_limit(self.struct, (ctypes.c_int64 * 2)(quota, period)))

    def weight(self) -> tuple[int, int]:
        """0 or an error, and the weight."""
        weight = ctypes.c_int64()
        return self._native.rowen_cgroup_weight(self.struct, ctypes.byref(weight)), weight.value

    def set_weight(self, weight: int) -> int:
        """0: the greatest. 0 or an error."""
        return int(self._native.rowen_cgroup_set_weight(self.struct, weight))

    def usage(self) -> int:
        """Nanoseconds of programs; negative: an error."""
        status, programs, _ = self.usages()
        return status or programs

    def processes(self, capacity: int = 64) -> tuple[int, list[int]]:
        """How many there are, and the buffer, which has one entry more than the library is told."""
        pids = (ctypes.c_int32 * (capacity + 1))(*[-7] * (capacity + 1))
        return self._native.rowen_cgroup_processes(self.struct, pids, capacity), list(pids)

    def freeze(self) -> None:
        """Asks for it, and waits until it is done."""
        assert self.call("freeze") == 0
        until(lambda: self.call("frozen") == 1, "the tree is frozen")

    def close(self) -> None:
        self._native.rowen_cgroup_close(self.struct)


def _processes(directory: Path) -> list[int]:
    found: list[int] = []
    for folder, _, _ in os.walk(directory):
        with contextlib.suppress(OSError):
            found += map(int, (Path(folder) / "cgroup.procs").read_text().split())
    return found


def _end_processes(directory: Path) -> None:
    """Without the code under test."""
    for folder, _, _ in os.walk(directory):
        for name, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            with contextlib.suppress(OSError):
                if (Path(folder) / name).exists():
                    (Path(folder) / name).write_text(text)
    for pid in _processes(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(directory: Path) -> None:
    """Ends everything in a cgroup, and removes it with all below it."""

    def emptied() -> bool:
        _end_processes(directory)
        return not _processes(directory)

    until(emptied, f"{directory} is empty")
    for folder, _, _ in os.walk(directory, topdown=False):
        until(lambda at=Path(folder): _removed(at), f"{folder} is removed")  # type: ignore[misc]


def _removed(directory: Path) -> bool:
    with contextlib.suppress(OSError):  # what has ended may not have been let go yet
        directory.rmdir()
    return not directory.exists()


def sweep(bases: Iterable[Path]) -> None:
    """Removes what test runs that were aborted have left."""
    for left in (found for base in bases for found in base.glob(f"{PREFIX}*")):
        owner, _, number = left.name.removeprefix(PREFIX).partition("-")
        if (owner == str(os.getpid()) and not number) or not Path(f"/proc/{owner}").exists():
            remove(left)


@dataclass(frozen=True)
class Hierarchy:
    """Where cgroups of one version are made. With version 1: freezer, cpuacct and cpu, else one."""

    version: int
    bases: tuple[Path, ...]
    pids: Path | None
    """Where the number of processes can be limited."""

    @property
    def all(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self.bases, *([self.pids] if self.pids else []))))


class Group:
    """A cgroup, and programs in it."""

    def __init__(self, hierarchy: Hierarchy, work: Path, folder: Path, *, kills: bool) -> None:
        """`kills`: handles use cgroup.kill where there is one; without, they work as on a kernel before 5.14."""
        self.kills = kills
        self.version = hierarchy.version
        self.directories = tuple(base / f"{PREFIX}{os.getpid()}" for base in hierarchy.all)
        self._bases = len(hierarchy.bases)
        self._work = work
        self._counts = folder / "counts"
        self._started: list[subprocess.Popen[str]] = []
        self._handles: list[Handle] = []
        self._counts.write_bytes(bytes(4096))
        for directory in self.directories:
            directory.mkdir()

    @property
    def directory(self) -> Path:
        return self.directories[0]

    @property
    def cpuacct(self) -> Path | None:
        return self.directories[1] if self.version == 1 else None

    @property
    def cpu(self) -> Path | None:
        return self.directories[2] if self.version == 1 else None

    def handle(self) -> Handle:
        made = Handle(self.directory, self.cpuacct, self.cpu)
        assert made.opened == 0
        if not self.kills and made.struct.kill >= 0:
            os.close(made.struct.kill)
            made.struct.kill = -1
        self._handles.append(made)
        return made

    def nested(self, path: str) -> tuple[Path, ...]:
        """A cgroup below, in each hierarchy."""
        made = tuple(directory / path for directory in self.directories[: self._bases])
        for directory in made:
            directory.mkdir(parents=True)
        return made

    def limit(self, processes: int) -> None:
        (self.directories[-1] / "pids.max").write_text(str(processes))

    def run(self, *words: str, inside: tuple[Path, ...] | None = None) -> "subprocess.Popen[str]":
        """Starts the program (`work.c`) in the cgroup or in others; a frozen one delays it, not the caller."""
        command = ["sh", "-c", _ENTER, "sh", *map(str, self.directories if inside is None else inside), "--"]
        self._started.append(
            subprocess.Popen(
                [*command, str(self._work), str(self._counts), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        )
        return self._started[-1]

    def counts(self, number: int = 1) -> list[int]:
        data = self._counts.read_bytes()
        return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(number)]

    def advances(self, number: int = 1) -> None:
        """Waits until every counter has moved."""
        before = self.counts(number)
        until(lambda: all(a > b for a, b in zip(self.counts(number), before, strict=True)), "the program runs")

    def left(self) -> list[int]:
        return _processes(self.directory)

    def close(self) -> None:
        for handle in self._handles:
            handle.close()
        for directory in self.directories:
            if directory.exists():
                remove(directory)
        for process in self._started:
            process.kill()
            process.communicate()


def hierarchy(version: int, root: Path) -> Hierarchy | None:
    """From what is mounted below a folder as /sys/fs/cgroup."""
    if version == 1:
        bases = (root / "freezer", root / "cpuacct", root / "cpu")
        usable = all(os.access(base / "cgroup.procs", os.W_OK) for base in bases)
        return Hierarchy(1, bases, _limiting(root / "pids")) if usable else None
    for base in _unified():
        return Hierarchy(2, (base,), _limiting(root / "pids") or _limiting(base))
    return None


def _limiting(base: Path) -> Path | None:
    """A base whose cgroups limit their number of processes."""
    enabled = base / "cgroup.subtree_control"
    if enabled.exists():
        return base if "pids" in enabled.read_text().split() else None
    return base if (base / "cgroup.procs").exists() else None


def _unified() -> Iterator[Path]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mountpoint, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            yield Path(mountpoint)
