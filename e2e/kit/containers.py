"""Processes of containers, seen from this machine: those of the local cluster's nodes are its own."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any


def kill(pod: dict[str, Any]) -> None:
    """SIGKILL to all processes of the pod's only container, as the kernel does when memory is short."""
    (container,) = pod["status"]["containerStatuses"]
    name = container["containerID"].rpartition("/")[2]
    processes = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cgroup") if name in _text(path)]
    assert processes, f"no process of container {name} is on this machine"
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""
