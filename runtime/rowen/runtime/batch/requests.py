"""Rows of the OpenAI batch format."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rowen.runtime.failure import WorkerError, reading

Text = Annotated[str, Field(min_length=1)]
Prompt = Text | Annotated[list[int], Field(min_length=1)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""What torch takes."""


class _Body(BaseModel):
    """What both routes share. Unknown fields are refused, so that none is lost silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    """Not read: a job has one model."""
    user: str | None = None
    """Not read."""
    metadata: dict[str, str] | None = None
    """Not read."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    seed: Seed | None = None
    stop: Text | list[Text] | None = None
    n: Literal[1] = 1
    stream: Literal[False] = False


class CompletionBody(_Body):
    """Body for /v1/completions."""

    prompt: Prompt


class ChatMessage(BaseModel):
    """One message; further fields go to the chat template as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: str
    content: str


class ChatBody(_Body):
    """Body for /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    custom_id: Text
    method: Literal["POST"]


class CompletionRow(_Row):
    """A request to /v1/completions."""

    url: Literal["/v1/completions"]
    body: CompletionBody


class ChatRow(_Row):
    """A request to /v1/chat/completions."""

    url: Literal["/v1/chat/completions"]
    body: ChatBody


_ROW: TypeAdapter[CompletionRow | ChatRow] = TypeAdapter(Annotated[CompletionRow | ChatRow, Field(discriminator="url")])


@dataclass(frozen=True)
class Request:
    """A line of the input: a row, or why it is none."""

    line: int
    """Counted from 1."""
    custom_id: str | None
    row: CompletionRow | ChatRow | None
    problem: str | None
    """Names the line; None for a proper row."""


def read_requests(path: Path) -> list[Request]:
    """All lines that are not blank. Raises `WorkerError` when the file cannot be read or has none."""
    with reading("InputMissing", path), path.open("rb") as stream:
        requests = list(_requests(path.name, stream))
    if not requests:
        raise WorkerError("InputMissing", f"{path} has no rows")
    return requests


def _requests(name: str, lines: Iterator[bytes] | Any) -> Iterator[Request]:
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        request = _request(name, number, line)
        if request.row is not None:
            first = first_lines.setdefault(request.row.custom_id, number)
            if first != number:
                problem = f"{name}:{number}: custom_id {request.custom_id!r} was used on line {first}"
                request = Request(number, request.custom_id, None, problem)
        yield request


def _request(name: str, number: int, line: bytes) -> Request:
    try:
        value = json.loads(line)
    except ValueError as error:
        return Request(number, None, None, f"{name}:{number}: not JSON: {error}")
    except RecursionError:
        return Request(number, None, None, f"{name}:{number}: nested too deeply")
    custom_id = value.get("custom_id") if isinstance(value, dict) else None
    custom_id = custom_id if isinstance(custom_id, str) else None
    try:
        return Request(number, custom_id, _ROW.validate_python(value), None)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # The first part of the place is the branch of the union, which means nothing to the user.
        place = ".".join(str(part) for part in first["loc"][1:]) or "row"
        return Request(number, custom_id, None, f"{name}:{number}: {place}: {first['msg']}")
