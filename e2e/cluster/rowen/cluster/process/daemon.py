"""A long-running process of the cluster: started once, found again, restarted when it died or changed."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import CONTROL_CGROUP, CONTROL_CPUS, Layout
from rowen.cluster.process import cgroup, process
from rowen.cluster.process.shell import wait_until

# The process joins its groups before it becomes the program, so no child of it ever runs outside.
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs"; done; shift; exec "$@"'


@dataclass(frozen=True)
class Daemon:
    """What to run. `configs` are the files whose change means a restart."""

    name: str
    argv: tuple[str, ...]
    group: str = CONTROL_CGROUP
    configs: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Changes with the command line, the configuration and the program itself."""
        digest = hashlib.sha256("\0".join(self.argv).encode())
        for path in self.configs:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


def running(layout: Layout, name: str) -> process.ProcessRecord | None:
    """The record of a daemon that is alive."""
    known = process.load(_record_path(layout, name))
    return known if known and process.alive(known) else None


def ensure(layout: Layout, daemon: Daemon) -> bool:
    """Have the daemon run as described; returns whether it had to be started."""
    known = running(layout, daemon.name)
    if known and known.digest == daemon.digest():
        return False
    if known:
        process.stop(known, grace=10)
    _start(layout, daemon)
    return True


def _start(layout: Layout, daemon: Daemon) -> None:
    groups = cgroup.ensure(daemon.group, CONTROL_CPUS)
    log = log_path(layout, daemon.name)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    with log.open("wb") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _JOIN, "rowen", " ".join(map(str, groups)), *daemon.argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=_environment(layout),
        )
    process.record(child.pid, daemon.digest()).save(_record_path(layout, daemon.name))


def _environment(layout: Layout) -> dict[str, str]:
    """Only what a daemon needs: a proxy or a KUBECONFIG of the caller must not leak into the cluster."""
    return {"PATH": f"{layout.bin}:/usr/local/sbin:/usr/sbin:/sbin:{os.environ['PATH']}", "HOME": "/root"}


def wait_ready(layout: Layout, name: str, ready: Callable[[], bool], *, timeout: float) -> None:
    """Wait for a daemon to answer, and stop waiting as soon as it is dead."""

    def answered() -> bool:
        if running(layout, name) is None:
            raise ClusterError(f"{name} ended: {last_words(log_path(layout, name))}")
        return ready()

    wait_until(answered, f"{name} ready (log: {log_path(layout, name)})", timeout=timeout)


def stop(layout: Layout, name: str, *, grace: float = 5) -> bool:
    """Stop a daemon that is ours; returns whether it ran."""
    path = _record_path(layout, name)
    known = process.load(path)
    was_alive = known is not None and process.alive(known)
    if known is not None:
        process.stop(known, grace=grace)
    path.unlink(missing_ok=True)
    return was_alive


def log_path(layout: Layout, name: str) -> Path:
    return layout.logs / f"{name}.log"


def last_words(log: Path) -> str:
    """The last line a daemon wrote, which is mostly why it ended."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        lines = []
    return f"{lines[-1][:400] if lines else 'it wrote nothing'} (log: {log})"


def _record_path(layout: Layout, name: str) -> Path:
    return layout.records / f"{name}.json"
