"""What a process has used, from `/proc`."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024
MEGABYTE = 1e6


@dataclass(frozen=True)
class Usage:
    """Of one process, all its threads."""

    cpu_seconds: float
    """User and system, since it began."""
    rss_bytes: int
    peak_rss_bytes: int


def usage(pid: int) -> Usage:
    """As of now. Raises `OSError` where the process has ended."""
    folder = Path("/proc") / str(pid)
    return parsed((folder / "stat").read_text(), (folder / "status").read_text())


def parsed(stat: str, status: str) -> Usage:
    """From the two files' texts."""
    # The name in parentheses may hold anything: what follows the last one is counted from the third field on.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    amounts = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Vm"))
    return Usage(ticks / _TICKS, *(int(amounts[name].split()[0]) * _KIB for name in ("VmRSS", "VmHWM")))
