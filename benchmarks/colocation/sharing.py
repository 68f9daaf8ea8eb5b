"""How the kernel shares a core between an engine and a tenant: by policy, or by groups as pods have."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Weight(Enum):
    """What a group counts against another."""

    EQUAL = "equal"
    """What a group has by default."""
    LEAST = "least"
    """What Kubernetes gives to pods that request no CPU (BestEffort)."""
    IDLE = "idle"
    """The group runs only when no other wants to."""


# File and content, by version of the hierarchy. Idleness has the same name in both.
_WEIGHTS = {
    1: {Weight.EQUAL: ("cpu.shares", "1024"), Weight.LEAST: ("cpu.shares", "2"), Weight.IDLE: ("cpu.idle", "1")},
    2: {Weight.EQUAL: ("cpu.weight", "100"), Weight.LEAST: ("cpu.weight", "1"), Weight.IDLE: ("cpu.idle", "1")},
}
# A control thread of the gate is real-time, and version 1 lets none into a group without a budget of microseconds.
_REAL_TIME_FILE, _REAL_TIME_BUDGET = "cpu.rt_runtime_us", "10000"


@dataclass(frozen=True)
class Hierarchy:
    """The control groups that have the cpu controller."""

    version: int
    root: Path
    """Where it is mounted."""
    home: Path
    """Group of this process and of its children."""


def hierarchy(mounts: str, groups: str) -> Hierarchy:
    """From the contents of /proc/self/mounts and /proc/self/cgroup.

    Raises:
        FileNotFoundError: No hierarchy that could have the cpu controller is mounted.
    """
    rows = [line.split() for line in mounts.splitlines()]
    own = [line.split(":", 2) for line in groups.splitlines()]
    for version, kind, controller in ((1, "cgroup", "cpu"), (2, "cgroup2", "")):
        for _, root, found, options, *_ in rows:
            if found != kind or (controller and controller not in options.split(",")):
                continue
            home = next(path for _, names, path in own if controller in names.split(","))
            return Hierarchy(version, Path(root), Path(root) / home.lstrip("/"))
    raise FileNotFoundError("no control groups with the cpu controller are mounted")


def this_hierarchy() -> Hierarchy:
    """Of this machine, as this process sees it. Raises `FileNotFoundError` as `hierarchy` does."""
    return hierarchy(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())


def home_of(here: Hierarchy) -> Path:
    """Where processes of this group go back to.

    A container may see the name of its group without seeing the group: then the mount is its group.
    """
    return here.home if here.home.is_dir() else here.root


@contextlib.contextmanager
def pods(engine: Sequence[int], tenant: Sequence[int], weight: Weight) -> Iterator[None]:
    """Has the processes of engine and tenant in a group of each, the tenant's with the weight; removes them after.

    Raises:
        OSError: The groups cannot be made, or the kernel has no such weight; nothing of them is left.
    """
    here = this_hierarchy()
    home = home_of(here)
    with contextlib.ExitStack() as stack:
        for name, processes, share in (("engine", engine, Weight.EQUAL), ("tenant", tenant, weight)):
            group = here.root / f"rowen-benchmark-{os.getpid()}-{name}"
            group.mkdir()
            stack.callback(group.rmdir)
            file, content = _WEIGHTS[here.version][share]
            (group / file).write_text(content)
            if (group / _REAL_TIME_FILE).exists():
                (group / _REAL_TIME_FILE).write_text(_REAL_TIME_BUDGET)
            stack.callback(move, processes, home)
            move(processes, group)
        yield


def move(processes: Sequence[int], group: Path) -> None:
    """Puts processes into a group, as far as they are still there. Raises `OSError`."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process))


@contextlib.contextmanager
def idle_policy(processes: Sequence[int]) -> Iterator[None]:
    """Has all ordinary threads of the processes under SCHED_IDLE.

    Raises:
        OSError: The kernel does not let us.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(_set_policy, processes, os.SCHED_IDLE, os.SCHED_OTHER)
        _set_policy(processes, os.SCHED_OTHER, os.SCHED_IDLE)
        yield


def _set_policy(processes: Sequence[int], before: int, after: int) -> None:
    # Control threads of the gate have another policy and keep it.
    for process in processes:
        for thread in _threads(process):
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getscheduler(thread) == before:
                    os.sched_setscheduler(thread, after, os.sched_param(0))


def _threads(process: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    except FileNotFoundError:
        return []


def pin(process: int, cores: set[int]) -> None:
    """Keeps all threads of a process on the cores."""
    for thread in _threads(process):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def members(group: int) -> list[int]:
    """Processes of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(int(folder.name)) == group:
                found.append(int(folder.name))
    return found
