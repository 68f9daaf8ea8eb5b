"""How many requests a batch has under way: a row may be several."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

_CHAT = "/v1/chat/completions"
SAMPLING_ROUTES = (_CHAT, "/v1/completions")
"""Where answers are drawn, `n` of them."""
_PROMPTS = ("prompt", "prompt_embeds", "input", "messages")
"""One, or a list of them. A list of tokens is one, and so is a conversation."""
_TEXTS = ("texts", "inputs", "images", "items", "query", "queries", "text_1", "text_2", "data_1", "data_2")
"""One, or a list of them, whatever they are made of."""
_MOST_ANSWERS = 2**31
"""Counted of one row: Python does not write numbers of more than some thousand digits, as in a message."""


def requests_in(route: str, body: Mapping[str, Any]) -> int:
    """Requests that an engine may make of a row's body, at most: one for each prompt or text, and each answer to it.

    Some models read two texts that are compared as one, others each by itself.
    """
    found = sum(_prompts(body.get(name)) for name in _PROMPTS) + sum(_texts(body.get(name)) for name in _TEXTS)
    if "query" in body or "queries" in body:
        # A chat may have documents, too, and is one request with them.
        found += _texts(body.get("documents"))
    return max(1, found) * (_answers(body.get("n")) if route in SAMPLING_ROUTES else 1)


def has_prompt_logprobs(route: str, body: Mapping[str, Any]) -> bool:
    """Whether a row asks for the log probabilities of all tokens of its prompt, in vLLM's ways."""
    if body.get("prompt_logprobs") is not None:
        return True
    # In a chat the number of them is 0 where it is not said.
    return bool(body.get("echo")) and (route == _CHAT or body.get("logprobs") is not None)


def is_beam_search(body: Mapping[str, Any]) -> bool:
    """Whether a row asks for it: vLLM's API server makes a new request of each beam for each token then."""
    return bool(body.get("use_beam_search"))


def _prompts(value: Any) -> int:
    several = isinstance(value, list) and bool(value) and isinstance(value[0], str | list)
    return len(value) if several else 1 if value else 0


def _texts(value: Any) -> int:
    return len(value) if isinstance(value, list) else 1 if value else 0


def _answers(value: Any) -> int:
    try:
        return min(max(1, int(value)), _MOST_ANSWERS)
    except (TypeError, ValueError, OverflowError):
        # What is no number vLLM refuses.
        return 1


class Room:
    """For so many at a time; who comes first goes first. One that is larger than the room has it alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, count: int) -> AsyncIterator[None]:
        """Waits for room, and has it meanwhile."""
        own = min(count, self._size)
        async with self._turn, self._changed:
            await self._changed.wait_for(lambda: self._taken + own <= self._size)
            self._taken += own
        try:
            yield
        finally:
            async with self._changed:
                self._taken -= own
                self._changed.notify_all()
