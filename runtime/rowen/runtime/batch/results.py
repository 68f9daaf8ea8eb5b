"""Lines of the OpenAI batch output format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rowen.runtime.batch.requests import ChatRow, Request

_ID_PREFIX = "batch_req_"
_NOT_OURS = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Answer:
    """What the model said to a request."""

    text: str
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Result:
    """A written line, as far as the worker reads it again."""

    line: int
    """Of the input."""
    failed: bool


def result_id(line: int) -> str:
    """The id of a line's result: the same in every attempt."""
    return f"{_ID_PREFIX}{line}"


def answer_line(request: Request, answer: Answer, model: str, created: int) -> bytes:
    """The result of an answered request; `created` is a Unix time in seconds."""
    chat = isinstance(request.row, ChatRow)
    choice: dict[str, Any] = {"index": 0, "finish_reason": answer.finish_reason, "logprobs": None}
    choice |= {"message": {"role": "assistant", "content": answer.text}} if chat else {"text": answer.text}
    body = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{request.line}",
        "object": "chat.completion" if chat else "text_completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        },
    }
    return _line(request, _response(request, body), None)


def problem_line(request: Request, problem: str) -> bytes:
    """The result of a request that cannot be answered."""
    return _line(request, None, {"code": "invalid_request", "message": problem})


def read_result(data: bytes, custom_ids: Mapping[int, str | None]) -> Result | None:
    """The result in a whole line; None when it belongs to no input line with that custom id."""
    try:
        value = json.loads(data)
        line = int(value["id"].removeprefix(_ID_PREFIX))
        failed = value["error"] is not None
        ours = value["id"] == result_id(line) and custom_ids[line] == value["custom_id"] and "response" in value
    except _NOT_OURS:
        return None
    return Result(line, failed) if ours else None


def may_begin(data: bytes, request: Request) -> bool:
    """Whether the bytes are how a result of the request begins."""
    # Most files and most requests differ here already: nothing more is built for them.
    start = f'{{"id": "{result_id(request.line)}"'.encode()
    if data[: len(start)] != start[: len(data)]:
        return False
    answered = _line(request, _response(request, {}), None).rpartition(b"{}")[0]
    refused = problem_line(request, "").rpartition(b'""')[0]
    return any(data.startswith(head) or head.startswith(data) for head in (answered, refused))


def _response(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    return {"status_code": 200, "request_id": result_id(request.line), "body": body}


def _line(request: Request, response: dict[str, Any] | None, error: dict[str, Any] | None) -> bytes:
    value = {
        "id": result_id(request.line),
        "custom_id": request.custom_id,
        "response": response,
        "error": error,
    }
    # UTF-8 has no lone surrogates, JSON has: a custom id may hold one.
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
