"""Running other programs, and waiting for them, always with a limit."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rowen.cluster.errors import ClusterError


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float = 120,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
) -> str:
    """Run a program and return its output; an exit status other than 0 is a ClusterError."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(f"{words[0]} is not installed; run `python -m rowen.cluster tools`") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{' '.join(words[:4])} … took longer than {timeout:.0f} s") from None
    if log is not None:
        log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise ClusterError(_failure(words, done.stdout, done.stderr, log))
    return done.stdout


def succeeds(argv: Sequence[str | Path], *, timeout: float = 30) -> bool:
    """Whether a program exits with 0."""
    try:
        run(argv, timeout=timeout)
    except ClusterError:
        return False
    return True


def _failure(words: Sequence[str], stdout: str, stderr: str, log: Path | None) -> str:
    lines = [line for line in (stderr or stdout).splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "no output"
    where = f" (all of it: {log})" if log else ""
    return f"{' '.join(words[:6])}: {last[:400]}{where}"


def wait_until(ready: Callable[[], bool], what: str, *, timeout: float, interval: float = 0.2) -> None:
    """Poll until `ready`, or say what did not happen in time."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout:.0f} s")
        time.sleep(interval)
