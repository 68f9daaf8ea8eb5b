"""The frame of an offline worker: reads its spec, runs, and says how it ended."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import structlog
from pydantic import ValidationError

from rowen.crds.job.worker import BatchSpec, ExitCode, TuningSpec, WorkerResult, WorkerSpec
from rowen.crds.names import ATTEMPT_ENV, JOB_SPEC_ENV, TERMINATION_LOG
from rowen.runtime import last_words
from rowen.runtime.coserve.ride_link import ride_link
from rowen.runtime.failure import WorkerError, failure_of
from rowen.runtime.native import Tenant, tenant

log = structlog.get_logger()

_MESSAGE_LENGTH = 2048
_TOLD_BYTES = 4096
"""So much of a termination log the kubelet keeps, from its end; nobody can read half a result."""


class Progress:
    """How far the job is; every change is told to the device."""

    def __init__(self, unit: Literal["steps", "rows"], device: Tenant) -> None:
        self.unit = unit
        self._device = device
        self.completed = 0
        """Units done, those of earlier attempts included."""
        self.total = 0
        """Units in all; 0 until it is known."""
        self.tokens = 0
        """Tokens that this process has worked through."""

    def report(self, completed: int, total: int, tokens: int = 0) -> None:
        """Sets units done and in all, and adds tokens."""
        self.completed, self.total = completed, total
        self.tokens += tokens
        self._device.progress(completed, total, self.tokens)


Spec = TypeVar("Spec", TuningSpec, BatchSpec)


def read_spec(kind: type[Spec]) -> Spec:
    """The spec in the environment. Raises `WorkerError` when there is none or it is of another kind."""
    text = os.environ.get(JOB_SPEC_ENV)
    if not text:
        raise WorkerError("SpecInvalid", f"{JOB_SPEC_ENV} is not set")
    try:
        spec = WorkerSpec.validate_json(text)
    except ValidationError as error:
        raise WorkerError("SpecInvalid", f"{JOB_SPEC_ENV}: {error}") from error
    if not isinstance(spec, kind):
        raise WorkerError("SpecInvalid", f"{JOB_SPEC_ENV} holds a {spec.kind}")
    return spec


def attempt() -> int:
    """Number of this attempt; 1 where the operator set none."""
    return int(os.environ.get(ATTEMPT_ENV, "1"))


def run(
    unit: Literal["steps", "rows"], work: Callable[[Progress], str], termination_log: Path = Path(TERMINATION_LOG)
) -> int:
    """Runs the work to its end and reports it. Returns the exit code."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Process 1 of a container ignores SIGTERM unless it says otherwise. Behind a gate this changes nothing: there the
    # library ends the process, since no Python runs while it is stopped.
    signal.signal(signal.SIGTERM, _terminated)
    progress = Progress(unit, ride_link() or tenant())
    reason, message, code = _outcome(work, progress)
    result = _result(reason, message, progress)
    say: Callable[..., Any] = log.info if code is ExitCode.DONE else log.error
    say("the worker ends", **result.to_wire(), exit_code=int(code))
    last_words.leave(result.model_dump_json(by_alias=True), termination_log)
    return int(code)


def _result(reason: str, message: str, progress: Progress) -> WorkerResult:
    # The name of a file may be no text.
    text = message.encode(errors="backslashreplace").decode()[:_MESSAGE_LENGTH]
    while True:
        result = WorkerResult(
            reason=reason, message=text, unit=progress.unit, completed=progress.completed, total=progress.total
        )
        if len(result.model_dump_json(by_alias=True).encode()) <= _TOLD_BYTES:
            return result
        text = text[: len(text) * 9 // 10]


def _outcome(work: Callable[[Progress], str], progress: Progress) -> tuple[str, str, ExitCode]:
    """Reason, message and exit code."""
    try:
        return "Completed", work(progress), ExitCode.DONE
    except WorkerError as error:
        return error.reason, error.message, error.code
    except OSError as error:
        meaning = failure_of(error)
        return meaning.reason, meaning.message, meaning.code
    except Exception as error:
        log.exception("the worker failed")
        return "Failed", f"{type(error).__name__}: {error}", ExitCode.RETRY


def _terminated(_signal: int, _frame: object) -> NoReturn:
    # What was committed stays, the next attempt goes on from there.
    sys.exit(int(ExitCode.RETRY))
