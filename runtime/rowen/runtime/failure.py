"""Why a job cannot go on."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowen.crds.job.worker import ExitCode

_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
_UNREADABLE = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
_WRITTEN_ERRNO = re.compile(r"\(os error (\d+)\)|\bError code (\d+) \(")
"""How libraries in Rust, and torch when it gets no memory, write the number that they do not set."""


class WorkerError(Exception):
    """The job cannot go on. `code` says whether another attempt may succeed."""

    def __init__(self, reason: str, message: str, code: ExitCode = ExitCode.USER_ERROR) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code


def failure_of(error: OSError) -> WorkerError:
    """What an operating system error on the output means to the job."""
    if error.errno in _FULL:
        return WorkerError("DiskFull", f"no space left: {error}", ExitCode.RETRY)
    if error.errno in _UNWRITABLE:
        return WorkerError("OutputUnwritable", str(error))
    return WorkerError("Failed", f"{type(error).__name__}: {error}", ExitCode.RETRY)


def input_failure(reason: str, message: str, error: Exception) -> WorkerError:
    """What an error means on a file that the job has to read: `reason` where it is the user's."""
    if is_passing(error):
        return WorkerError("Failed", message, ExitCode.RETRY)
    return WorkerError(reason, message)


def is_passing(error: BaseException | None) -> bool:
    """Whether the operating system's error behind it says nothing of the file, as when a disk or a network fails."""
    while error is not None:
        number = _number(error)
        if number is not None and number not in _UNREADABLE:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def reading(reason: str, path: Path) -> Iterator[None]:
    """Around the reading of a file that the job needs. Raises `WorkerError`, with `reason` where it is the user's."""
    try:
        yield
    except OSError as error:
        raise input_failure(reason, f"{path} cannot be read: {error.strerror or error}", error) from error


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    written = _WRITTEN_ERRNO.search(str(error))
    return int(written[1] or written[2]) if written else None
