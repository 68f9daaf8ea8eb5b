"""The output file: lines are appended, and after any crash each row is in it at most once."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from rowen.runtime.batch.requests import Request
from rowen.runtime.batch.results import line_of
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import sync_folder


class Output:
    """Appends result lines. A line counts as written when it ends in a newline."""

    def __init__(self, path: Path, fence: Fence, requests: Iterable[Request]) -> None:
        """Opens the file, drops a torn last line and reads what is done. Raises `WorkerError`, `OSError`."""
        self._path = path
        self._fence = fence
        self._file = path.open("a+b", buffering=0)
        sync_folder(path.parent)
        whole = self._drop_torn_line()
        self.done: set[int] = self._read_done(whole, {request.line: request.custom_id for request in requests})
        """Input lines whose result is written."""
        self.failed = self._failed
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

    def _drop_torn_line(self) -> bytes:
        self._file.seek(0)
        data = self._file.read()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            self._fence.check()
            os.ftruncate(self._file.fileno(), end)
            os.fsync(self._file.fileno())
        return data[:end]

    def _read_done(self, data: bytes, custom_ids: dict[int, str | None]) -> set[int]:
        done: set[int] = set()
        self._failed = 0
        for number, line in enumerate(data.splitlines(), start=1):
            try:
                value = json.loads(line)
                input_line = line_of(value["id"])
                ours = input_line in custom_ids and custom_ids[input_line] == value["custom_id"]
            except (ValueError, TypeError, KeyError):
                ours, input_line = False, None
            if not ours or input_line is None:
                message = f"{self._path}:{number} is no result of this input; name another output file"
                raise WorkerError("OutputUnwritable", message)
            done.add(input_line)
            self._failed += value["error"] is not None
        return done
