"""Control groups (v1) that hold everything the local cluster runs.

Membership cannot be escaped by daemonising, so a group answers "which processes
are ours" even for containers whose parents are gone. A cpuset also pins the
daemons to their cores without touching their affinity mask; a mask would be
inherited by every container.
"""

import os
import signal
from pathlib import Path

from rowen.cluster.errors import ClusterError
from rowen.cluster.process.shell import wait_until


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Mount points of the v1 hierarchies; the first error a v2-only machine meets."""
    found = [Path(line.split()[1]) for line in _mount_lines(mounts) if line.split()[2] == "cgroup"]
    if not found:
        raise ClusterError(
            "CLUSTER=local needs cgroup v1 controllers: boot with systemd.unified_cgroup_hierarchy=0, "
            "or use CLUSTER=kind or existing"
        )
    return found


def _mount_lines(mounts: str | None) -> list[str]:
    return (mounts if mounts is not None else Path("/proc/mounts").read_text()).splitlines()


def _all_trees() -> list[Path]:
    """v1 hierarchies and, on a hybrid machine, the unified one: runc makes groups there too."""
    return [Path(line.split()[1]) for line in _mount_lines(None) if line.split()[2] in ("cgroup", "cgroup2")]


def ensure(group: str, cpus: str | None = None) -> list[Path]:
    """Make the group in every hierarchy; `cpus` limits it, otherwise it inherits its parent's cores."""
    made = []
    for tree in hierarchies():
        path = tree
        for part in group.split("/"):
            path = path / part
            path.mkdir(exist_ok=True)
            _fill_cpuset(path)
        if cpus is not None and (path / "cpuset.cpus").exists():
            (path / "cpuset.cpus").write_text(cpus)
        made.append(path)
    return made


def _fill_cpuset(path: Path) -> None:
    """A new v1 cpuset is empty, and an empty one takes no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = path / name
        if file.exists() and not file.read_text().strip():
            file.write_text((path.parent / name).read_text())


def set_cpus(group: str, cpus: str) -> None:
    """Move a group's processes to other cores."""
    for tree in hierarchies():
        if (tree / group / "cpuset.cpus").exists():
            (tree / group / "cpuset.cpus").write_text(cpus)


def all_cpus() -> str:
    """Every core of the machine, in the kernel's notation."""
    return Path("/sys/devices/system/cpu/online").read_text().strip()


def members(group: str) -> set[int]:
    """All processes in the group and the groups below it."""
    pids: set[int] = set()
    for tree in _all_trees():
        # os.walk passes over groups that go away while it walks; rglob raises.
        for folder, _, _ in os.walk(tree / group):
            try:
                pids.update(int(word) for word in (Path(folder) / "cgroup.procs").read_text().split())
            except OSError:
                continue
    return pids


def kill(group: str, *, timeout: float = 30) -> int:
    """SIGKILL every member, until there is none; returns how many there were at first."""
    count = len(members(group))

    def emptied() -> bool:
        left = members(group)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    wait_until(emptied, f"end of the processes in cgroup {group}", timeout=timeout, interval=0.05)
    return count


def remove(group: str) -> None:
    """Remove the (empty) group and all below it."""
    for tree in _all_trees():
        for folder, _, _ in os.walk(tree / group, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError as error:
                raise ClusterError(f"cannot remove cgroup {folder}: {error.strerror}") from None
