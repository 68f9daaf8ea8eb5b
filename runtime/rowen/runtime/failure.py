"""Why a job cannot go on."""

import errno

from rowen.crds.worker import ExitCode

_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip


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
