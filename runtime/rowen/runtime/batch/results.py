"""Lines of the OpenAI batch output format."""

import json
import re
from dataclasses import dataclass
from typing import Any

from rowen.runtime.batch.rows import Row, Rows

_ID_PREFIX = "batch_req_"
_OK = 200
_NOT_OURS = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_START = f'{{"id": "{_ID_PREFIX}'.encode()
_NUMBER = re.compile(rb"(\d{1,18})(\"?)")


@dataclass(frozen=True)
class Result:
    """What came of a row."""

    line: int
    """Of the input."""
    data: bytes
    """The line of the output, its newline included."""
    failed: bool
    """Whether it is an error: it has no response, or one whose status is not 200."""


@dataclass(frozen=True)
class ReadResult:
    """A written line, as far as the worker reads it again."""

    line: int
    """Of the input."""
    failed: bool


def result_id(line: int) -> str:
    """The id of a line's result: the same in every attempt."""
    return f"{_ID_PREFIX}{line}"


def response_result(row: Row, status: int, body: Any) -> Result:
    """The result of a row that was answered with this status and JSON."""
    response = {"status_code": status, "request_id": result_id(row.line), "body": body}
    return Result(row.line, _line(row, response, None), status != _OK)


def problem_result(row: Row, problem: str) -> Result:
    """The result of a row that cannot be sent."""
    return Result(row.line, _line(row, None, {"code": "invalid_request", "message": problem}), True)


def read_result(data: bytes, rows: Rows) -> ReadResult | None:
    """The result in a whole line; None when it belongs to no row."""
    try:
        value = json.loads(data)
        line, error, response = int(value["id"].removeprefix(_ID_PREFIX)), value["error"], value["response"]
        failed = error is not None or response["status_code"] != _OK
        ours = value["id"] == result_id(line) and rows.has(line, value["custom_id"])
    except _NOT_OURS:
        return None
    return ReadResult(line, failed) if ours else None


def may_begin(data: bytes, rows: Rows) -> bool:
    """Whether the bytes are how a result of one of the rows begins."""
    if len(data) <= len(_START):
        return _START.startswith(data)
    number = _NUMBER.match(data, len(_START)) if data.startswith(_START) else None
    if number is None:
        return False
    if not number[2]:
        # The number itself is torn.
        return number.end() == len(data)
    line = int(number[1])
    if not rows.has_line(line):
        return False
    row = rows.row(line)
    answered = response_result(row, _OK, {}).data.rpartition(b"{}")[0]
    refused = problem_result(row, "").data.rpartition(b'""')[0]
    return any(_may_go_on(data, head) for head in (_with_status_of(data, answered), refused))


def _may_go_on(data: bytes, head: bytes) -> bool:
    return data.startswith(head) or head.startswith(data)


def _with_status_of(data: bytes, head: bytes) -> bytes:
    """The head of an answer with the status that the data have in its place: any three digits will do."""
    before, _, after = head.rpartition(f"{_OK},".encode())
    status = data[len(before) : len(before) + 3]
    return head if not status.isdigit() else before + status + (b"," + after if len(status) == 3 else b"")


def _line(row: Row, response: dict[str, Any] | None, error: dict[str, Any] | None) -> bytes:
    value = {"id": result_id(row.line), "custom_id": row.custom_id, "response": response, "error": error}
    # UTF-8 has no lone surrogates, JSON has: a custom id may hold one.
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
