"""How fast rows are sent to an engine, whose API server tokenizes rows and requests one after another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_REQUEST_SECONDS = 0.004
_BYTE_SECONDS = 4e-6
"""Four times what the API server takes for a request, and the tokenizer for a byte of text, or so."""


class Intake:
    """Lets rows through one by one, so that hardly more than one stands before a request that comes.

    What is refused unread costs no step, so that nothing else slows it down. When a row is taken in is an estimate:
    rows gather where the API server stands still, as many as the batch has under way at most.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free_at = 0.0

    @asynccontextmanager
    async def turn(self, requests: int, row_bytes: int) -> AsyncIterator[None]:
        """Waits four times as long as the row before takes to be taken in, or so; the row is sent at the end."""
        now = asyncio.get_running_loop().time
        async with self._lock:
            await asyncio.sleep(self._free_at - now())
            yield
            self._free_at = now() + _REQUEST_SECONDS * requests + _BYTE_SECONDS * row_bytes
