"""Processes in a pod's cgroup that have not attached, and which of them used its CPU."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rowen.node_agent.attach.offence import Process

_MOST_DEPTH = 8
_MOST_PROCESSES = 128
"""That one look is at: those with the lowest ids, as a rule the oldest. The agent's loop waits for it."""


@dataclass(frozen=True)
class Sighting:
    """What /proc says of a process."""

    name: str
    started: int
    """Ticks since boot: with the pid, the process's identity."""
    user_ticks: int
    """CPU time that its program has used."""


@dataclass
class _Suspect:
    started: int
    open_seconds: float
    user_ticks: int
    used: bool = False


def processes_in(directory: Path, depth: int = _MOST_DEPTH) -> set[int]:
    """Processes in a cgroup and below it; those of cgroups that are removed meanwhile are left out."""
    try:
        found = {int(pid) for pid in (directory / "cgroup.procs").read_text().split()} - {0}
        below = [entry for entry in directory.iterdir() if entry.is_dir()] if depth else []
    except OSError:
        return set()
    return found.union(*(processes_in(entry, depth - 1) for entry in below))


def sight(pid: int, proc: Path = Path("/proc")) -> Sighting | None:
    """Looks at a process; None: it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Sighting(name, started=int(fields[19]), user_ticks=int(fields[11]))


class Suspects:
    """Of one pod."""

    def __init__(self) -> None:
        self._seen: dict[int, _Suspect] = {}
        self._names: dict[int, str] = {}

    def look(self, pids: Iterable[int], open_seconds: float) -> None:
        """Notes what the processes that have not attached did since the last look.

        `open_seconds`: how long the pod could run so far.
        """
        now: dict[int, _Suspect] = {}
        for pid in heapq.nsmallest(_MOST_PROCESSES, pids):
            sighting = sight(pid)
            if sighting is None:
                continue
            before = self._seen.get(pid)
            self._names[pid] = sighting.name
            if before is None or before.started != sighting.started:
                now[pid] = _Suspect(sighting.started, open_seconds, sighting.user_ticks, used=sighting.user_ticks > 0)
                continue
            before.used = sighting.user_ticks > before.user_ticks
            before.user_ticks = sighting.user_ticks
            now[pid] = before
        self._seen = now
        self._names = {pid: self._names[pid] for pid in now}

    def culprit(self, open_seconds: float) -> Process | None:
        """The one that has been there longest, of those that ran since the look before the last; None: none did."""
        ran = [(suspect.open_seconds, pid) for pid, suspect in self._seen.items() if suspect.used]
        if not ran:
            return None
        since, pid = min(ran)
        return Process(pid, self._names[pid], max(0.0, open_seconds - since))
