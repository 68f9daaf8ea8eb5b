"""Rows of the OpenAI batch format, of which only places are kept in memory: a file may have a million."""

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rowen.crds.faults import not_json
from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError, reading
from rowen.runtime.line_reader import is_too_long, read_line, read_lines, too_long

_DIGEST_BYTES = 16
_BLANK, _ROW, _PROBLEM = range(3)
_MOST_LEVELS = 100
"""Of lists and objects in a row. Whether Python reads deeper ones depends on where it is asked to."""


class RowContent(BaseModel):
    """A request: what is sent where. The body is vLLM's to judge."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    custom_id: Annotated[str, Field(min_length=1)]
    method: Literal["POST"]
    url: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A line of the input: a request, or why it is none."""

    line: int
    """Counted from 1."""
    custom_id: str | None
    content: RowContent | None
    problem: str | None
    """Names the line; None for a proper row."""


class Rows:
    """The lines of an input file that are not blank. Each is read when it is needed."""

    def __init__(self, path: Path) -> None:
        """Reads the file once. Raises `WorkerError` when it cannot be read or has no rows."""
        self._name = path.name
        self._offsets, self._kinds, self._digests = array("Q"), bytearray(), bytearray()
        with reading("InputMissing", path):
            self._file = path.open("rb")
            self._look_through()
        if not len(self):
            raise WorkerError("InputMissing", f"{path} has no rows")
        self._first_lines = self._repeated()
        for line in self._first_lines:
            self._kinds[line - 1] = _PROBLEM

    def __len__(self) -> int:
        """Rows, those with problems included."""
        return len(self._kinds) - self._kinds.count(_BLANK)

    def __iter__(self) -> Iterator[int]:
        """Numbers of the lines, in order."""
        return (line for line, kind in enumerate(self._kinds, start=1) if kind != _BLANK)

    @property
    def last_line(self) -> int:
        """Number of the file's last line."""
        return len(self._kinds)

    def problems(self) -> Iterator[Row]:
        """The rows that cannot be answered."""
        return (self.row(line) for line, kind in enumerate(self._kinds, start=1) if kind == _PROBLEM)

    def row(self, line: int) -> Row:
        """The row of this line. Raises `WorkerError`, `OSError`."""
        self._file.seek(self._offsets[line - 1])
        row = _row(self._name, line, read_line(self._file))
        first = self._first_lines.get(line)
        was_row = self._kinds[line - 1] == _ROW or first is not None
        if _digest(row.custom_id) != self._digest(line) or (row.content is not None) != was_row:
            raise WorkerError("Failed", f"{self._name}:{line} has changed since the job began", ExitCode.RETRY)
        if first is None:
            return row
        problem = f"{self._name}:{line}: custom_id {row.custom_id!r} was used on line {first}"
        return Row(line, row.custom_id, None, problem)

    def has_line(self, line: int) -> bool:
        """Whether there is such a row."""
        return 1 <= line <= len(self._kinds) and self._kinds[line - 1] != _BLANK

    def has(self, line: int, custom_id: str | None) -> bool:
        """Whether there is such a row with that custom id."""
        return self.has_line(line) and _digest(custom_id) == self._digest(line)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _look_through(self) -> None:
        for line, (offset, data) in enumerate(read_lines(self._file), start=1):
            row = _row(self._name, line, data) if is_too_long(data) or data.strip() else None
            self._offsets.append(offset)
            self._kinds.append(_BLANK if row is None else _PROBLEM if row.content is None else _ROW)
            self._digests += _digest(row.custom_id if row else None)

    def _digest(self, line: int) -> bytes:
        return bytes(self._digests[_DIGEST_BYTES * (line - 1) : _DIGEST_BYTES * line])

    def _repeated(self) -> dict[int, int]:
        """Lines of proper rows whose custom id an earlier one has, and which line that is."""
        lines = np.flatnonzero(np.frombuffer(self._kinds, np.uint8) == _ROW)
        digests = np.frombuffer(self._digests, f"S{_DIGEST_BYTES}")[lines]
        order = np.argsort(digests, kind="stable")
        same = np.flatnonzero(digests[order][1:] == digests[order][:-1]) + 1
        first_lines: dict[int, int] = {}
        for place in same:
            before, line = (int(lines[order[at]]) + 1 for at in (place - 1, place))
            first_lines[line] = first_lines.get(before, before)
        return first_lines


def _digest(custom_id: str | None) -> bytes:
    if custom_id is None:
        return bytes(_DIGEST_BYTES)
    # JSON has lone surrogates.
    return hashlib.blake2b(custom_id.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _read(data: bytes) -> Any:
    """Raises `ValueError`; and `RecursionError` for what is nested too deeply."""
    value = json.loads(data)
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MOST_LEVELS):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return value
    raise RecursionError


def _row(name: str, line: int, data: bytes) -> Row:
    if is_too_long(data):
        return Row(line, None, None, f"{name}:{line}: {too_long()}")
    try:
        value = _read(data)
    except ValueError as error:
        return Row(line, None, None, f"{name}:{line}: {not_json(error)}")
    except RecursionError:
        return Row(line, None, None, f"{name}:{line}: nested too deeply, more than {_MOST_LEVELS} levels")
    custom_id = value.get("custom_id") if isinstance(value, dict) else None
    custom_id = custom_id if isinstance(custom_id, str) else None
    try:
        content = RowContent.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "row"
        return Row(line, custom_id, None, f"{name}:{line}: {place}: {first['msg']}")
    if content.body.get("stream"):
        message = "body.stream: a row is answered in one piece, leave stream out"
        return Row(line, custom_id, None, f"{name}:{line}: {message}")
    return Row(line, custom_id, content, None)
