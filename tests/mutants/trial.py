"""Runs tests against a mutant: in a process of its own, where the mutant stands for the module."""

import gc
import importlib
import importlib.machinery
import multiprocessing
import os
import resource
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import ceil
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pytest
from mutants.changes import Mutant
from mutants.policies import ROOT, path_of

_FORK = multiprocessing.get_context("fork")
_NOTICED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""A test failed, or could not be imported. Pytest's other troubles say nothing of the tests."""
_PATIENCE = 5.0
"""Seconds that a mutant may take for each second of the processor: on a busy machine, or where it hangs."""
_ELSEWHERE = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Outcome(Enum):
    """How a mutant fared."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Unchanged:
    """How the tests went without a change."""

    passed: bool
    loaded: bool
    """Whether they imported the module at all."""
    seconds: float
    """Of the processor."""
    output: str
    as_mutants: bool = False
    """Whether they found imported all that mutants find imported."""


class _Mutated(importlib.machinery.SourceFileLoader):
    """Loads a source that is in no file."""

    def __init__(self, module: str, source: str) -> None:
        super().__init__(module, str(path_of(module)))
        self._source = source
        self.loaded = False

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        self.loaded = True
        return compile(self._source, self.path, "exec")

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None):  # type: ignore[no-untyped-def]
        """As a finder: of its own module and no other."""
        if name == self.name:
            return importlib.machinery.ModuleSpec(name, self, origin=self.path)
        return None


def _test(
    mutated: _Mutated, tests: Sequence[Sequence[Path]], folder: str, limit_seconds: float, answer: Connection
) -> None:
    """In the child process, which ends by SIGXCPU at so many seconds of the processor."""
    os.setsid()
    limit = ceil(limit_seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    output = os.open(f"{folder}/output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    # What a test leaves lying goes with the folder.
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    _forget_our_own()
    sys.meta_path.insert(0, mutated)
    answer.send((_run(tests, folder), mutated.loaded, time.process_time(), _imported_from_elsewhere()))
    os._exit(0)


def _run(tests: Sequence[Sequence[Path]], folder: str) -> int:
    """Pytest's exit code: one part after the other, up to the first failure. Most mutants fall in the first."""
    code = 0
    for part in tests:
        code = code or int(pytest.main([*_options(folder), *map(str, part)]))
        sys.stdout.flush()
    return code


def _options(folder: str) -> list[str]:
    return [
        "-x",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        f"--basetemp={folder}/tests",
        "--override-ini=log_level=CRITICAL",
    ]


def _imported_from_elsewhere() -> list[str]:
    """What a mutant may find imported already; the API models too, which know no policy."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return [name for name, file in files.items() if file and (file.startswith(_ELSEWHERE) or _is_api(name))]


def _forget_our_own() -> None:
    """What this process, or the test run that it is part of, has imported of the product and of its tests."""
    elsewhere = set(_imported_from_elsewhere())
    for name, module in list(sys.modules.items()):
        ours = (getattr(module, "__file__", None) or "").startswith(str(ROOT))
        if ours and name not in elsewhere and name != "__main__" and not name.startswith("mutants."):
            del sys.modules[name]


def _is_api(module: str) -> bool:
    return module == "rowen.crds" or module.startswith("rowen.crds.")


class _Running:
    """A child process with its answer to come."""

    def __init__(self, mutated: _Mutated, tests: Sequence[Sequence[Path]], limit_seconds: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rowen-mutant-", ignore_cleanup_errors=True)
        self.answer, theirs = _FORK.Pipe(duplex=False)
        self.deadline = time.monotonic() + _PATIENCE * limit_seconds
        self._process = _FORK.Process(target=_test, args=(mutated, tests, self._folder.name, limit_seconds, theirs))
        self._process.start()
        assert self._process.pid
        self._group = self._process.pid
        theirs.close()

    def output(self) -> str:
        return (Path(self._folder.name) / "output").read_text(errors="replace")

    def outcome(self) -> Outcome:
        """After it has answered, or is gone."""
        try:
            code, *_ = self.answer.recv()
        except EOFError:
            self._process.join()
            return Outcome.TIMED_OUT if self._process.exitcode == -signal.SIGXCPU else Outcome.KILLED
        return Outcome.KILLED if code in _NOTICED else Outcome.SURVIVED

    def end(self) -> None:
        """Of the child, and of what it has started."""
        self._process.kill()
        with suppress(ProcessLookupError):
            # It leads a group of its own, unless it was killed before that.
            os.killpg(self._group, signal.SIGKILL)
        self._process.join()
        self.answer.close()
        self._folder.cleanup()


def unchanged(module: str, tests: Sequence[Sequence[Path]], limit_seconds: float) -> Unchanged:
    """Runs the tests as they are. What they import from elsewhere is then imported here, and by no mutant again.

    `limit_seconds`: of the processor.
    """
    running = _Running(_Mutated(module, path_of(module).read_text()), tests, limit_seconds)
    try:
        if not running.answer.poll(_PATIENCE * limit_seconds):
            raise EOFError
        code, loaded, seconds, names = running.answer.recv()
        as_mutants = sys.modules.keys() >= set(names)
        result = Unchanged(code == 0, loaded, seconds, running.output(), as_mutants)
    except EOFError:
        return Unchanged(False, False, limit_seconds, f"no end within {limit_seconds} s\n{running.output()}")
    finally:
        running.end()
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)
    # What is collected is written to, and every child would copy the pages.
    gc.freeze()
    return result


def outcomes(
    mutants: Iterable[Mutant], tests: Sequence[Sequence[Path]], limit_seconds: float
) -> Iterator[tuple[Mutant, Outcome]]:
    """How each fares, as many at a time as there are CPUs, in the order in which they end.

    `limit_seconds`: of the processor, after which one has timed out.
    """
    waiting = iter(mutants)
    running: dict[Connection, tuple[Mutant, _Running]] = {}
    at_once = len(os.sched_getaffinity(0))
    try:
        while True:
            while len(running) < at_once and (mutant := next(waiting, None)):
                started = _Running(_Mutated(mutant.module, mutant.source), tests, limit_seconds)
                running[started.answer] = mutant, started
            if not running:
                return
            left = min(started.deadline for _, started in running.values()) - time.monotonic()
            answered = set(wait(list(running), timeout=max(0.0, left)))
            now = time.monotonic()
            for answer in [key for key, (_, started) in running.items() if key in answered or started.deadline <= now]:
                mutant, started = running[answer]
                outcome = started.outcome() if answer in answered else Outcome.TIMED_OUT
                started.end()
                del running[answer]
                yield mutant, outcome
    finally:
        for _, started in running.values():
            started.end()
