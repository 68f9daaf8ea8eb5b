"""The output file: lines are appended, and after any crash each row is in it at most once."""

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rowen.runtime.batch.requests import Request
from rowen.runtime.batch.results import may_begin, read_result
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import sync_folder

_LONGEST_LINE_BYTES = 256 * 2**20
"""No result is so long: a file without newlines need not be read whole."""
_LONGEST_NAME_BYTES = 255
"""Of a file; the same on all common file systems."""


@dataclass(frozen=True)
class Written:
    """What a file holds of a job's results."""

    lines: frozenset[int]
    """Input lines whose result is written."""
    failed: int
    """How many of them are errors."""
    whole_bytes: int
    """Length of the whole lines; what follows is torn."""
    state: tuple[int, ...] | None
    """Identity, size and time of the file that was read; None without one."""


class Output:
    """Appends result lines. A line counts as written when it ends in a newline."""

    def __init__(self, path: Path, fence: Fence, requests: Sequence[Request], written: Written) -> None:
        """Opens the file of which `written` has been read, and drops a torn last line.

        Raises `WorkerError`, `OSError`. A file that is not the output of these requests is left as it is.
        """
        # An older attempt may have written until the fence was taken.
        if (_state(path.stat()) if _is_there(path) else None) != written.state:
            written = read_written(path, requests)
        self._fence = fence
        self._file = path.open("ab", buffering=0)
        sync_folder(path.parent)
        self._drop_after(written.whole_bytes)
        self.done: set[int] = set(written.lines)
        """Input lines whose result is written."""
        self.failed = written.failed
        """How many of them are errors."""

    def append(self, lines: dict[int, bytes], failed: int = 0) -> None:
        """Appends the results of those input lines and makes them last. Raises `WorkerError`, `OSError`."""
        self._fence.check()
        size = os.fstat(self._file.fileno()).st_size
        data = b"".join(lines.values())
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError:
            # What was written of the chunk is taken back, so that a retry starts from whole lines.
            os.ftruncate(self._file.fileno(), size)
            raise
        self.done |= lines.keys()
        self.failed += failed

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _drop_after(self, size: int) -> None:
        if os.fstat(self._file.fileno()).st_size > size:
            self._fence.check()
            os.ftruncate(self._file.fileno(), size)
            os.fsync(self._file.fileno())


def owner_file(path: Path) -> Path:
    """Where the output's owner is named: beside it."""
    name = f".{path.name}.owner"
    if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}.owner"
    return path.with_name(name)


def check_output(path: Path, source: Path, requests: Sequence[Request]) -> Written:
    """What is written already. Changes nothing.

    Raises `WorkerError` or `OSError` when no job that reads `source` may write there.
    """
    if _is_there(path) and path.samefile(source):
        raise WorkerError("OutputUnwritable", f"{path} is the input itself; name another output file")
    return read_written(path, requests)


def read_written(path: Path, requests: Sequence[Request]) -> Written:
    """What is written of these requests' results. Changes nothing.

    Raises `WorkerError` when something else is there, and `OSError` when it cannot be read or written.
    """
    if not _is_there(path):
        return Written(frozenset(), 0, 0, None)
    custom_ids = {request.line: request.custom_id for request in requests}
    lines: set[int] = set()
    failed, whole_bytes = 0, 0
    # Opened for writing, too: what must not be written is refused here.
    with path.open("r+b") as stream:
        state = _state(os.fstat(stream.fileno()))
        for number in count(1):
            data = stream.readline(_LONGEST_LINE_BYTES)
            if not data.endswith(b"\n"):
                break
            result = read_result(data, custom_ids)
            if result is None:
                raise _foreign(path, number)
            lines.add(result.line)
            failed += result.failed
            whole_bytes += len(data)
    torn = len(data) < _LONGEST_LINE_BYTES and (lines or any(may_begin(data, request) for request in requests))
    if not torn:
        raise _foreign(path, number)
    return Written(frozenset(lines), failed, whole_bytes, state)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_there(path: Path) -> bool:
    """Whether there is a file to go on with. Raises `WorkerError` for anything that is no file, and `OSError`."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise WorkerError("OutputUnwritable", f"{path} is a link to nothing; name another output file") from None
        return False
    if stat.S_ISDIR(mode):
        raise WorkerError("OutputUnwritable", f"{path} is a folder; the output is a file")
    if not stat.S_ISREG(mode):
        raise WorkerError("OutputUnwritable", f"{path} is not a regular file; name another output file")
    return True


def _foreign(path: Path, number: int) -> WorkerError:
    return WorkerError("OutputUnwritable", f"{path}:{number} is no result of this input; name another output file")
