"""The rows of a dataset: what is given and what is learned."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rowen.crds.text.clip import clipped

Messages = list[dict[str, Any]]

_FIELDS = ("messages", "prompt", "completion", "text")
_NAMES_LENGTH = 80
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair: whole ones have become one character when JSON is read."""


@dataclass(frozen=True)
class Text:
    """A completion is learned, after a prompt that is given; a text alone has an empty prompt."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Chat:
    """A conversation, of which the messages in `given` come first and are not learned."""

    given: Messages
    messages: Messages
    tools: list[Any] = field(default_factory=list)


def row_of(value: object) -> Text | Chat:
    """The row with these fields. Raises `ValueError` that names the field."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fields = {name: value[name] for name in _FIELDS if name in value}
    for name, content in fields.items():
        if not content or not isinstance(content, list if name == "messages" else str | list):
            kind = "a list" if name == "messages" else "a text"
            raise ValueError(f"{name} is not {kind}, or is empty")
        if any(_SURROGATE.search(text) for text in _texts(content)):
            raise ValueError(f"{name} holds half of a surrogate pair, which no tokenizer takes")
    row = _row(fields, value.get("tools") or [])
    if row is None:
        found = clipped(", ".join(value), _NAMES_LENGTH) or "no field"
        raise ValueError(f"expected either messages, or prompt and completion, or text; the row has {found}")
    return row


def _row(fields: dict[str, Any], tools: object) -> Text | Chat | None:
    kinds = {name: type(content) for name, content in fields.items()}
    if kinds == {"text": str}:
        return Text("", fields["text"])
    if kinds == {"prompt": str, "completion": str}:
        return Text(fields["prompt"], fields["completion"])
    if kinds == {"messages": list}:
        return Chat([], _messages("messages", fields["messages"]), _tools(tools))
    if kinds == {"prompt": list, "completion": list}:
        given, learned = _messages("prompt", fields["prompt"]), _messages("completion", fields["completion"])
        return Chat(given, learned, _tools(tools))
    if kinds.keys() == {"prompt", "completion"}:
        raise ValueError("prompt and completion are two texts, or two lists of messages")
    return None


def _messages(name: str, content: list[Any]) -> Messages:
    for number, message in enumerate(content):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"{name}[{number}] is not an object with a role")
        # What is null is not there: a column holds all fields of any message.
        if all(value is None for key, value in message.items() if key != "role"):
            raise ValueError(f"{name}[{number}] has a role and no content")
    return content


def _tools(tools: object) -> list[Any]:
    """As a list, or as JSON of one, which is how a column can hold them."""
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError):
            raise ValueError("tools is not a list, or JSON of one") from None
    if not isinstance(tools, list):
        raise ValueError("tools is not a list, or JSON of one")
    return tools


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
