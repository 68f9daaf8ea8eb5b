"""`Output` in files of a volume: lines are appended, and a torn last line is dropped."""

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, count
from pathlib import Path

from typing_extensions import override

from rowen.runtime.batch.output import Lines, Output
from rowen.runtime.batch.results import Result, may_begin, read_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import make_folder, sync_folder

_LONGEST_LINE_BYTES = 256 * 2**20
"""No result is so long: a file without newlines need not be read whole."""
_LONGEST_NAME_BYTES = 255
"""Of a file; the same on all common file systems."""


@dataclass(frozen=True)
class Written:
    """What a file holds of a job's results."""

    lines: Lines
    """Input lines whose result is written."""
    failed: int
    """How many of them are errors."""
    whole_bytes: int
    """Length of the whole lines; what follows is torn."""
    state: tuple[int, ...] | None
    """Identity, size and time of the file that was read; None without one."""


class ResultFile:
    """A file of result lines. A line counts as written when it ends in a newline."""

    def __init__(self, path: Path, rows: Rows) -> None:
        """Reads what is written of these rows' results. Changes nothing.

        Raises `WorkerError` when something else is there, and `OSError` when it cannot be read or written.
        """
        self.path, self.rows = path, rows
        self.written = read_written(path, rows)

    def open(self, fence: Fence) -> None:
        """Takes the file for this attempt and drops a torn last line. Raises as before, and `WorkerError`."""
        # An older attempt may have written until the fence was taken.
        if (_state(self.path.stat()) if _is_there(self.path) else None) != self.written.state:
            self.written = read_written(self.path, self.rows)
        self._fence = fence
        self._file = self.path.open("ab", buffering=0)
        sync_folder(self.path.parent)
        if os.fstat(self._file.fileno()).st_size > self.written.whole_bytes:
            self._fence.check()
            os.ftruncate(self._file.fileno(), self.written.whole_bytes)
            os.fsync(self._file.fileno())

    def append(self, results: Sequence[Result]) -> None:
        """Appends the lines and makes them last. Raises `WorkerError`, `OSError`."""
        self._fence.check()
        size = os.fstat(self._file.fileno()).st_size
        data = b"".join(result.data for result in results)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError:
            # What was written of the group is taken back, so that a retry starts from whole lines.
            os.ftruncate(self._file.fileno(), size)
            raise

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class FileOutput(Output):
    """One file, or two of which the second has the failed rows."""

    group_seconds = 0.2

    def __init__(self, source: Path, rows: Rows, path: Path, errors: Path | None, attempt: int) -> None:
        """Takes the output for this attempt.

        Raises `WorkerError` or `OSError`, and has changed nothing, when no job that reads `source` may write there.
        """
        paths = [path] if errors is None else [path, errors]
        self._files = [_checked(each, source, rows) for each in paths]
        _refuse_doubles(self._files)
        for each in paths:
            make_folder(each.parent)
        self._fence = Fence(owner_file(path), attempt)
        for file in self._files:
            file.open(self._fence)
        self.done = Lines(line for line in rows if any(line in file.written.lines for file in self._files))
        self.failed = sum(file.written.failed for file in self._files)

    @override
    def append(self, results: Sequence[Result]) -> None:
        *others, last = self._files
        for file in self._files:
            group = [result for result in results if not others or result.failed is (file is last)]
            if group:
                file.append(group)
                self.failed += sum(result.failed for result in group)
                for result in group:
                    self.done.add(result.line)

    @override
    def close(self) -> None:
        for file in self._files:
            file.close()
        self._fence.release()


def owner_file(path: Path) -> Path:
    """Where the output's owner is named: beside it."""
    name = f".{path.name}.owner"
    if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}.owner"
    return path.with_name(name)


def read_written(path: Path, rows: Rows) -> Written:
    """What is written of these rows' results. Changes nothing.

    Raises `WorkerError` when something else is there, and `OSError` when it cannot be read or written.
    """
    if not _is_there(path):
        return Written(Lines(), 0, 0, None)
    lines, failed, whole_bytes = Lines(), 0, 0
    # Opened for writing, too: what must not be written is refused here.
    with path.open("r+b") as stream:
        state = _state(os.fstat(stream.fileno()))
        for number in count(1):
            data = stream.readline(_LONGEST_LINE_BYTES)
            if not data.endswith(b"\n"):
                break
            result = read_result(data, rows)
            if result is None or result.line in lines:
                raise _foreign(path, number)
            lines.add(result.line)
            failed += result.failed
            whole_bytes += len(data)
    torn = len(data) < _LONGEST_LINE_BYTES and (len(lines) or may_begin(data, rows))
    if not torn:
        raise _foreign(path, number)
    return Written(lines, failed, whole_bytes, state)


def _checked(path: Path, source: Path, rows: Rows) -> ResultFile:
    if _is_there(path) and path.samefile(source):
        raise WorkerError("OutputUnwritable", f"{path} is the input itself; name another output file")
    return ResultFile(path, rows)


def _refuse_doubles(files: Sequence[ResultFile]) -> None:
    """Raises `WorkerError` where two files are one, or have a row each: they are no outputs of one job."""
    for one, other in combinations(files, 2):
        if one.path.resolve() == other.path.resolve():
            raise WorkerError("OutputUnwritable", f"{other.path} is the output, too; name another file for errors")
        both = next((line for line in one.rows if line in one.written.lines and line in other.written.lines), None)
        if both is not None:
            message = f"{one.path} and {other.path} both have the result of line {both}; name other output files"
            raise WorkerError("OutputUnwritable", message)


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
