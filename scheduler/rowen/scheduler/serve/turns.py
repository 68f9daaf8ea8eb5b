"""Questions take their turn: what one of them computes, the loop cannot."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST_WAITING = 16
WAIT_SECONDS = 10.0


class BusyError(Exception):
    """Too many ask."""


class Turns:
    """One question at a time, a rest of four times its length after it, and a short queue."""

    def __init__(self) -> None:
        self._lock, self._waiting, self._rested = asyncio.Lock(), 0, 0.0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Waits for its turn. Raises `BusyError` where the queue is full, or after `WAIT_SECONDS`."""
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._lock.acquire()
                try:
                    await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
                except BaseException:
                    self._lock.release()
                    raise
        except TimeoutError:
            raise BusyError from None
        finally:
            self._waiting -= 1
        began = time.monotonic()
        try:
            yield
        finally:
            ended = time.monotonic()
            self._rested = ended + 4.0 * (ended - began)
            self._lock.release()
