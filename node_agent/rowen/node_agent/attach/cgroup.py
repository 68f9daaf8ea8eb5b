"""Where the cgroup of a pod is: from one of its processes, or from the pod's UID."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
FREEZER: Final = "freezer"
_MOST_LEVELS: Final = 8
"""Levels below the root at which a pod's directory is looked for; a kubelet within a container puts it at the sixth."""
_REMOVED: Final = " (deleted)"

_QOS: Final = re.compile("besteffort|burstable")


def _uid(dash: str) -> str:
    """A UUID, or the hash that a static pod has for a UID."""
    return rf"([0-9a-f]{{8}}(?:{dash}[0-9a-f]{{4}}){{3}}{dash}[0-9a-f]{{12}}|[0-9a-f]{{32}})"


_PLAIN: Final = re.compile(rf"pod{_uid('-')}")
"""A pod's directory with the kubelet's `cgroupfs` driver; it stands in `kubepods`, or in a class of service of that."""
_SLICE: Final = re.compile(rf"(?:.+-)?kubepods(?:-(?:{_QOS.pattern}))?-pod{_uid('_')}\.slice")
"""With its `systemd` driver; there the name says it all."""


@dataclass(frozen=True)
class PodPath:
    """A pod's cgroup within a hierarchy."""

    uid: str
    path: PurePosixPath
    """Relative. Some of its beginning is missing when `complete` is false."""
    complete: bool = True
    """Whether the path begins at the root of what the reader sees as the hierarchy."""


@dataclass(frozen=True)
class PodCgroup:
    """A pod's cgroup. Everything in the pod is in it or below it, what starts later too."""

    uid: str
    directory: Path
    """The freezer's with cgroup v1; the pod's one directory with v2."""
    cpuacct: Path | None
    """With v1 the directory that accounts for CPU time."""
    cpu: Path | None = None
    """With v1 the directory by which CPU time is limited; None: it cannot be."""


class CgroupsMissingError(OSError):
    """What is mounted is no hierarchy that pods could be stopped with."""


def paths_of(text: str) -> dict[str, str]:
    """Controller → path, from the text of /proc/<pid>/cgroup. The controller of version 2 is the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if number.isdigit() and colon and second:
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def _uid_of(name: str, parents: tuple[str, ...]) -> str | None:
    """The pod whose directory this is, by its name and those of the ones above, nearest first."""
    if match := _SLICE.fullmatch(name):
        return match[1].replace("_", "-")
    match = _PLAIN.fullmatch(name)
    above = parents[1:] if parents and _QOS.fullmatch(parents[0]) else parents
    return match[1] if match and above and above[0] == "kubepods" else None


def pod_path(path: str) -> PodPath | None:
    """The pod that a cgroup's path lies in; None: it lies in none, or the cgroup is removed.

    The outermost pod counts: what is further down was named by those in it. A reader in a cgroup namespace of its own
    sees the cgroups outside of it as `/../..`, without the names in between; such a path is not complete, and where it
    begins below `kubepods` the name alone has to tell.
    """
    if not path.startswith("/") or path.endswith(_REMOVED):
        return None
    parts = [part for part in path.split("/") if part]
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    parts = parts[ups:]
    if ".." in parts:
        return None
    # The kubelet's folder is one of those that the namespace hides, when only the class or the pod is left.
    hidden = ("kubepods",) if ups else ()
    for index, name in enumerate(parts):
        uid = _uid_of(name, (*reversed(parts[:index]), *hidden))
        if uid is not None:
            return PodPath(uid, PurePosixPath(*parts[: index + 1]), complete=not ups)
    return None


def _walk(base: Path) -> Iterator[tuple[str, Path]]:
    """UID and directory of the pods below, the outer levels first. Nothing is looked for inside a pod."""
    level = [base]
    for _ in range(_MOST_LEVELS):
        below = []
        for directory in level:
            parents = tuple(reversed(directory.relative_to(base).parts))
            for name in _folders(directory):
                uid = _uid_of(name, parents)
                if uid is None:
                    below.append(directory / name)
                else:
                    yield uid, directory / name
        level = below


def _folders(directory: Path) -> list[str]:
    """Empty for one that is removed meanwhile."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


class Cgroups:
    """The node's cgroups, as mounted in the agent's container."""

    def __init__(self, root: Path = ROOT, proc: Path = Path("/proc")) -> None:
        """`root`: what the node has at /sys/fs/cgroup. Raises `CgroupsMissingError`."""
        self._proc = proc
        self._cpuacct: Path | None = None
        self._cpu = root / "cpu"
        if (root / "cgroup.controllers").exists():
            self._base, self._controller = root, ""
        elif all((root / name / "cgroup.procs").exists() for name in (FREEZER, "cpuacct")):
            self._base, self._controller = root / FREEZER, FREEZER
            self._cpuacct = root / "cpuacct"
        else:
            raise CgroupsMissingError(
                f"{root} has neither cgroups of version 2 nor {FREEZER} and cpuacct of version 1: "
                "expected the node's /sys/fs/cgroup"
            )

    def uid_of(self, pid: int) -> str | None:
        """The pod that a process is in; None: it is in none, or has ended."""
        found = self._path_of(pid)
        return found.uid if found else None

    def of_process(self, pid: int) -> PodCgroup | None:
        """The cgroup of the pod that a process is in; None: it is in none that is below the root, or has ended."""
        found = self._path_of(pid)
        if found is None:
            return None
        here = self._pod(found.uid, self._base / found.path) if found.complete else None
        return here or self.of_uid(found.uid)

    def _path_of(self, pid: int) -> PodPath | None:
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return None
        return pod_path(paths_of(text).get(self._controller, ""))

    def of_uid(self, uid: str) -> PodCgroup | None:
        """The cgroup of a pod, looked for below the root; None: it has none, so none of its processes run."""
        for found, directory in _walk(self._base):
            if found == uid and (pod := self._pod(uid, directory)):
                return pod
        return None

    def _pod(self, uid: str, directory: Path) -> PodCgroup | None:
        if not directory.is_dir():
            return None
        if self._cpuacct is None:
            return PodCgroup(uid, directory, None)
        cpuacct, cpu = (base / directory.relative_to(self._base) for base in (self._cpuacct, self._cpu))
        if not cpuacct.is_dir():
            return None
        return PodCgroup(uid, directory, cpuacct, cpu if cpu.is_dir() else None)
