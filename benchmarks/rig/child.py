"""Processes that a benchmark starts and talks to by lines."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]


def command(module: str, *arguments: object) -> list[str]:
    """A program of `benchmarks`, by its module's name."""
    return [sys.executable, "-m", module, *map(str, arguments)]


@contextmanager
def running(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A process that is killed in the end; it finds the modules of `benchmarks`."""
    path = os.pathsep.join(map(str, filter(None, [BENCHMARKS, os.environ.get("PYTHONPATH")])))
    child = subprocess.Popen(
        arguments,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@contextmanager
def process(code: str, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that is killed in the end."""
    with running([sys.executable, "-c", code, *arguments], environment) as child:
        yield child


def read(child: "subprocess.Popen[str]") -> str:
    """The next line. Raises `RuntimeError` when the process has ended."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the benchmark ended with status {child.wait()}")
    return line


def ask(child: "subprocess.Popen[str]", line: str) -> str:
    """Writes a line and waits for the next one. Raises `RuntimeError` as `read` does."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return read(child)
