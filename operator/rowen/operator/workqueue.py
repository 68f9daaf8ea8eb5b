"""A queue of keys: each is handled by one worker at a time, at most once per change, with back-off on errors."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from rowen.kube.pauses import pause_seconds
from rowen.operator.world.store import Key

FIRST_RETRY_SECONDS = 0.5
MOST_RETRY_SECONDS = 60.0


class WorkQueue:
    """Runs `handle` for keys. `handle` returns the seconds after which to come back, or None."""

    def __init__(self, handle: Callable[[Key], Awaitable[float | None]]) -> None:
        self._handle = handle
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._errors: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Handle the key as soon as a worker is free; a key that is being handled is handled once more.

        A key that has failed waits for its back-off, however many events come in.
        """
        if key in self._errors and key in self._timers:
            return
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Handle the key after so long, or earlier where it was asked for already."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def add_within(self, key: Key, seconds: float) -> None:
        """Handle the key once for all that comes within so long. One that has failed waits for its back-off."""
        if not (key in self._errors and key in self._timers):
            self.add_after(key, seconds)

    async def run(self, workers: int) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._wake.clear()
                await self._wake.wait()
            key = self._ready.popleft()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self._handle_one(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    async def _handle_one(self, key: Key) -> None:
        try:
            seconds = await self._handle(key)
        except Exception as error:
            errors = self._errors[key] = self._errors.get(key, 0) + 1
            self.add_after(key, pause_seconds(error, errors, first=FIRST_RETRY_SECONDS, most=MOST_RETRY_SECONDS))
            return
        self._errors.pop(key, None)
        if seconds is not None:
            self.add_after(key, seconds)
