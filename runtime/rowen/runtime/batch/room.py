"""How many requests a batch has under way: a row may be several."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

_TEXTS = ("texts", "inputs", "queries", "text_1", "text_2", "data_1", "data_2")


def requests_in(body: Mapping[str, Any]) -> int:
    """Requests that an engine makes of a row's body: one for each prompt or text and each answer that is wanted to it.

    Texts that are compared with one another count by the longest list of them.
    """
    prompts, wanted = body.get("prompt", body.get("input")), body.get("n")
    several = isinstance(prompts, list) and bool(prompts) and isinstance(prompts[0], str | list)
    texts = [body.get(name) for name in _TEXTS] + [body.get("documents") if "query" in body else None]
    longest = max((len(each) for each in (*texts, prompts if several else None) if isinstance(each, list)), default=1)
    return max(1, longest) * (wanted if isinstance(wanted, int) and wanted > 1 else 1)


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
