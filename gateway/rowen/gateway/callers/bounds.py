"""Bounds what a request may send, how long it may pause over it, and how many do costly things at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.types import Message

from rowen.gateway.callers.errors import ApiError, busy

SILENCE_SECONDS = 30.0
"""So long nothing may come of a body that is not whole."""


def bounded(request: Request, most_bytes: int) -> Request:
    """The same request; its body raises `ApiError`: 413 above `most_bytes`, 408 after `SILENCE_SECONDS` of silence."""
    left = most_bytes

    async def receive() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await request.receive()
        except TimeoutError:
            raise ApiError(408, f"nothing came for {SILENCE_SECONDS:.0f} s") from None
        left -= len(message.get("body", b""))
        if left < 0:
            raise ApiError(413, f"the request is larger than {most_bytes} bytes", code="too_large")
        return message

    return Request(request.scope, receive)


class Places:
    """So many at once; others wait a while."""

    def __init__(self, count: int, wait_seconds: float) -> None:
        self._free, self._wait_seconds = asyncio.Semaphore(count), wait_seconds

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Waits for a place. Raises `ApiError`, 503."""
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise busy("too many files come at once") from None
        try:
            yield
        finally:
            self._free.release()
