"""Running other programs, and waiting for them, always with a limit."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO

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
    """Run a program and return its output; an exit status other than 0 is a ClusterError.

    With `log`, both streams go there while it runs, so that a long build can be watched.
    """
    words = [str(word) for word in argv]
    with ExitStack() as stack:
        output: IO[str] = stack.enter_context(_sink(log))
        errors: IO[str] = output if log else stack.enter_context(_sink(None))
        try:
            done = subprocess.run(
                words,
                input=stdin,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
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
        said, complained = _text(output), _text(errors)
    if done.returncode != 0:
        raise ClusterError(_failure(words, said, complained, log))
    return said


def _sink(log: Path | None) -> AbstractContextManager[IO[str]]:
    return log.open("w+") if log else tempfile.TemporaryFile("w+")


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def succeeds(argv: Sequence[str | Path], *, timeout: float = 30, env: Mapping[str, str] | None = None) -> bool:
    """Whether a program exits with 0."""
    try:
        run(argv, timeout=timeout, env=env)
    except ClusterError:
        return False
    return True


def _failure(words: Sequence[str], stdout: str, stderr: str, log: Path | None) -> str:
    lines = [line for line in (stderr or stdout).splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.lower().startswith("error")]
    first = errors[0] if errors else len(lines) - 1
    last = " ".join(line.strip() for line in lines[first : first + 2]) or "no output"
    where = f" (all of it: {log})" if log else ""
    return f"{' '.join(words[:6])}: {last[:400]}{where}"


def wait_until(ready: Callable[[], bool], what: str, *, timeout: float, interval: float = 0.2) -> None:
    """Poll until `ready`, or say what did not happen in time."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout:.0f} s")
        time.sleep(interval)
