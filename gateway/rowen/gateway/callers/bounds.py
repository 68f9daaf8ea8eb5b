"""Bounds what a request may send, how slowly it may come, and how many do costly things at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from fastapi import Request
from starlette.types import Message

from rowen.gateway.callers.errors import ApiError, busy


@dataclass(frozen=True)
class Pace:
    """How fast a body has to come while it is waited for."""

    silence_seconds: float
    """So long nothing may come."""
    least_bytes_per_second: int
    """Over each stretch of `silence_seconds`."""


class _Watch:
    """Measures a body by its pace. What the gateway itself takes time for does not count."""

    def __init__(self, pace: Pace) -> None:
        self._pace, self._waited_seconds, self._bytes = pace, 0.0, 0

    def came(self, seconds: float, size: int) -> None:
        """So many bytes have been waited for, so long. Raises `ApiError`, 408."""
        self._waited_seconds += seconds
        self._bytes += size
        if self._waited_seconds < self._pace.silence_seconds:
            return
        if self._bytes < self._waited_seconds * self._pace.least_bytes_per_second:
            least = self._pace.least_bytes_per_second
            raise ApiError(408, f"the request came with less than {least} bytes a second", code="too_slow")
        self._waited_seconds, self._bytes = 0.0, 0


def bounded(request: Request, most_bytes: int, pace: Pace) -> Request:
    """The same request. Its body raises `ApiError`: 413 above `most_bytes`, 408 where it is silent or too slow."""
    left, watch = most_bytes, _Watch(pace)

    async def receive() -> Message:
        nonlocal left
        began = time.monotonic()
        try:
            async with asyncio.timeout(pace.silence_seconds):
                message = await request.receive()
        except TimeoutError:
            raise ApiError(408, f"nothing came for {pace.silence_seconds:g} s", code="too_slow") from None
        if message["type"] == "http.disconnect":
            raise ApiError(400, "the caller has gone before the request was whole")
        size = len(message.get("body", b""))
        left -= size
        if left < 0:
            raise ApiError(413, f"the request is larger than {most_bytes} bytes", code="too_large")
        if message.get("more_body"):
            # What is whole is taken, however long it was on its way.
            watch.came(time.monotonic() - began, size)
        return message

    return Request(request.scope, receive)


class Places:
    """So many at once, and so many of one namespace; others wait a while."""

    def __init__(self, count: int, of_a_namespace: int, wait_seconds: float) -> None:
        self._free, self._of_a_namespace, self._wait_seconds = asyncio.Semaphore(count), of_a_namespace, wait_seconds
        self._own = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def take(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a place. Raises `ApiError`, 503."""
        own = self._own.setdefault(namespace, asyncio.Semaphore(self._of_a_namespace))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    # Its own first: who waits for others of its namespace is in nobody else's way.
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._free)
            except TimeoutError:
                raise busy("too many files come at once") from None
            yield
