"""Whether a file is a batch: what can be said of its rows before anything runs. Pure.

What a body holds beside `model` and `stream` is the engine's to judge, row by row.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rowen.crds.faults import not_json

MOST_LINE_BYTES = 16 * 2**20
MOST_ID_CHARACTERS = 512
MOST_FAULTS = 20
"""More are not told."""


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, or its first `limit` bytes; empty at the end."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a row, as OpenAI's batches tell it."""

    line: int | None
    """Counted from 1; None where it is the whole file."""
    code: str
    message: str
    param: str | None = None
    """The field."""

    def to_wire(self) -> dict[str, Any]:
        """As an entry of `errors.data`."""
        return {"code": self.code, "line": self.line, "message": self.message, "param": self.param}

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class Rows:
    """What a file asks for."""

    count: int
    model: str


class FaultsError(ValueError):
    """The file is no batch."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


class _Reader:
    def __init__(self, endpoint: str, most_rows: int) -> None:
        self._endpoint, self._most_rows = endpoint, most_rows
        self._first: dict[str, int] = {}
        self._model: str | None = None
        self.count = 0

    def whole(self) -> Rows:
        """Raises `FaultsError` of a file without rows."""
        if self._model is None:
            raise FaultsError([Fault(None, "empty_file", "the file has no rows")])
        return Rows(self.count, self._model)

    def faults(self, number: int, line: bytes) -> Iterator[Fault]:
        """Those of one line."""
        if not line.strip():
            return
        self.count += 1
        if self.count == self._most_rows + 1:
            yield Fault(number, "too_many_rows", f"the file has more than {self._most_rows} rows")
        row = _parsed(line)
        if isinstance(row, str):
            yield Fault(number, "invalid_json_line", row)
            return
        yield from self._of_id(number, row.get("custom_id"))
        if row.get("method") != "POST":
            yield Fault(number, "invalid_method", "method must be POST", "method")
        if row.get("url") != self._endpoint:
            yield Fault(number, "invalid_url", f"url must be the batch's endpoint, {self._endpoint}", "url")
        yield from self._of_body(number, row.get("body"))

    def _of_id(self, number: int, custom_id: object) -> Iterator[Fault]:
        if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MOST_ID_CHARACTERS:
            words = f"custom_id must be a text of 1 to {MOST_ID_CHARACTERS} characters"
            yield Fault(number, "invalid_custom_id", words, "custom_id")
            return
        first = self._first.setdefault(custom_id, number)
        if first != number:
            yield Fault(number, "duplicate_custom_id", f"custom_id was used on line {first} already", "custom_id")

    def _of_body(self, number: int, body: object) -> Iterator[Fault]:
        if not isinstance(body, dict):
            yield Fault(number, "invalid_body", "body must be an object", "body")
            return
        if body.get("stream"):
            yield Fault(number, "invalid_body", "stream is not for a batch", "body.stream")
        model = body.get("model")
        if not isinstance(model, str) or not model:
            yield Fault(number, "missing_model", "body.model must name a model", "body.model")
            return
        self._model = self._model or model
        if model != self._model:
            words = f"all rows must name one model, and the first is {self._model[:64]!r}"
            yield Fault(number, "mismatched_model", words, "body.model")


def read_rows(file: Lines, endpoint: str, most_rows: int) -> Rows:
    """What the file asks for. Raises `FaultsError` with the first faults of one that is no batch for the endpoint."""
    reader, found, number = _Reader(endpoint, most_rows), list[Fault](), 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            found.append(Fault(number, "line_too_long", f"the line has more than {MOST_LINE_BYTES} bytes"))
            break
        found += reader.faults(number, line)
        if len(found) >= MOST_FAULTS or reader.count > most_rows:
            break
    if found:
        raise FaultsError(found[:MOST_FAULTS])
    return reader.whole()


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The row, or why it is none."""
    try:
        row = json.loads(line)
    except RecursionError:
        return "the line is nested too deeply"
    except ValueError as error:
        return f"the line is {not_json(error)}"
    return row if isinstance(row, dict) else "the line is no JSON object"
