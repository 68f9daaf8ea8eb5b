"""A record of one process we started, good enough to never signal a stranger.

A pid alone may have been reused, so a record also holds the start time that the
kernel keeps for it and the boot it belongs to.
"""

import os
import signal
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rowen.cluster import files
from rowen.cluster.errors import ClusterError
from rowen.cluster.process.shell import wait_until

PROC = Path("/proc")


class ProcessRecord(BaseModel):
    """Who a daemon is, and the digest of what it was started with."""

    model_config = ConfigDict(frozen=True)

    pid: int
    start_ticks: int
    boot: str
    digest: str = ""

    def save(self, path: Path) -> None:
        files.write(path, self.model_dump_json())


def load(path: Path) -> ProcessRecord | None:
    """The record at `path`; None when there is none or it is unreadable."""
    try:
        return ProcessRecord.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None


def record(pid: int, digest: str = "", proc: Path = PROC) -> ProcessRecord:
    """Describe a live process."""
    _, ticks = parse_stat((proc / str(pid) / "stat").read_text())
    return ProcessRecord(pid=pid, start_ticks=ticks, boot=boot_id(proc), digest=digest)


def parse_stat(text: str) -> tuple[str, int]:
    """State and start time; the command name before them may hold spaces and brackets."""
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def boot_id(proc: Path = PROC) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def alive(known: ProcessRecord, proc: Path = PROC) -> bool:
    """Whether the very process of the record still runs."""
    try:
        state, ticks = parse_stat((proc / str(known.pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return False
    return ticks == known.start_ticks and state not in "ZX" and known.boot == boot_id(proc)


def stop(known: ProcessRecord, *, grace: float) -> None:
    """Ask the process to end, and make it end after `grace` seconds."""
    for sig, timeout in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        if not alive(known):
            return
        os.kill(known.pid, sig)
        try:
            wait_until(lambda: not alive(known), f"end of process {known.pid}", timeout=timeout, interval=0.05)
        except ClusterError:
            if sig is signal.SIGKILL:
                raise
