"""Lines of the OpenAI batch output format."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from rowen.runtime.batch.requests import ChatRow, Request

_ID_PREFIX = "batch_req_"


@dataclass(frozen=True)
class Answer:
    """What the model said to a request."""

    text: str
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int


def result_id(line: int) -> str:
    """The id of a line's result: the same in every attempt."""
    return f"{_ID_PREFIX}{line}"


def line_of(identifier: object) -> int | None:
    """The input line of a result's id; None for an id that is not ours."""
    if not isinstance(identifier, str) or not identifier.startswith(_ID_PREFIX):
        return None
    number = identifier.removeprefix(_ID_PREFIX)
    return int(number) if number.isdigit() else None


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
    return _line(request, {"status_code": 200, "request_id": result_id(request.line), "body": body}, None)


def problem_line(request: Request, problem: str) -> bytes:
    """The result of a request that cannot be answered."""
    return _line(request, None, {"code": "invalid_request", "message": problem})


def _line(request: Request, response: dict[str, Any] | None, error: dict[str, Any] | None) -> bytes:
    value = {
        "id": result_id(request.line),
        "custom_id": request.custom_id,
        "response": response,
        "error": error,
    }
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
