"""How many requests a batch has under way: a row may be several."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any


def requests_in(body: Mapping[str, Any]) -> int:
    """Requests that an engine makes of a row's body: one for each prompt and each answer that is wanted to it."""
    prompts, wanted = body.get("prompt", body.get("input")), body.get("n")
    several = isinstance(prompts, list) and bool(prompts) and isinstance(prompts[0], str | list)
    return (len(prompts) if several else 1) * (wanted if isinstance(wanted, int) and wanted > 1 else 1)


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
