"""One command at a time may change the cluster, and one the images: nodes need not wait for a build."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rowen.cluster.console import console
from rowen.cluster.layout import Layout
from rowen.cluster.process.shell import wait_until

PATIENCE = 1800


@contextmanager
def exclusive(layout: Layout, name: str = "cluster") -> Iterator[None]:
    """Hold the machine-wide lock of the cluster or its `images`; whoever comes second waits."""
    layout.root.mkdir(parents=True, exist_ok=True)
    with layout.lock(name).open("w") as lock:
        if not _taken(lock):
            console.print("waiting for another `python -m rowen.cluster`")
            wait_until(lambda: _taken(lock), "end of the other command", timeout=PATIENCE, interval=0.5)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
