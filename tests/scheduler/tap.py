"""An API client with a hand on its calls, to make a real API server slow, deaf or refusing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import pytest

from rowen.kube.client import Client, Raw
from rowen.kube.errors import UnreachableError


async def until(holds: Callable[[], bool]) -> None:
    """Waits until it holds."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not come to that")


class Held:
    """An answer that is held back: the API server has acted, and nobody knows."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        """Lets the answer through."""
        self._released.set()

    async def wait(self) -> None:
        self.arrived.set()
        await self._released.wait()


class Tap:
    """Passes calls on to a real client. Calls are told apart by `METHOD resource`; watches are `WATCH resource`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: dict[str, Held] = {}
        self._away = asyncio.Event()
        self.calls: list[str] = []
        """Every call that was made."""
        self.errors: dict[str, Exception] = {}
        """What calls raise instead of being made."""
        self.lost: dict[str, Exception] = {}
        """What calls raise after the API server has acted on them."""
        self.deaf: set[str] = set()
        """Watches that deliver nothing, as on a connection that hangs."""

    @property
    def client(self) -> Client:
        """As the type that the code expects."""
        return cast("Client", self)

    def cut(self) -> None:
        """The API server is away: every call fails, and the watches that are under way end."""
        self._away.set()

    def mend(self) -> None:
        """It is back."""
        self._away = asyncio.Event()

    async def gone(self) -> None:
        """Returns when the API server goes away."""
        await self._away.wait()

    def hold(self, call: str) -> Held:
        """Holds back the answer to the next such call."""
        self._held[call] = held = Held()
        return held

    async def call(self, method: str, path: str, **arguments: Any) -> Raw:
        """As `Client.call`."""
        call = f"{method} {_plural(path)}"
        held = self._noted(call)
        answer = await self._client.call(method, path, **arguments)
        await self._lost(call, held)
        return answer

    @contextlib.asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """As `Client.lines`."""
        call = f"WATCH {_plural(path)}"
        held = self._noted(call)
        async with self._client.lines(path, query, silence_seconds) as lines:
            await self._lost(call, held)
            yield self._heard(call, lines)

    def _noted(self, call: str) -> Held | None:
        self.calls.append(call)
        if self._away.is_set():
            raise UnreachableError("away")
        if call in self.errors:
            raise self.errors[call]
        return self._held.pop(call, None)

    async def _lost(self, call: str, held: Held | None) -> None:
        if held is not None:
            await held.wait()
        if call in self.lost:
            raise self.lost[call]

    async def _heard(self, call: str, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        gone = asyncio.create_task(self.gone())
        try:
            while (line := await _next(lines, gone)) is not None:
                if call not in self.deaf:
                    yield line
        finally:
            gone.cancel()


def _plural(path: str) -> str:
    """The resource of `/api/v1/…` or `/apis/group/version/…`."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    return parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]


async def _next(lines: AsyncIterator[bytes], gone: asyncio.Task[None]) -> bytes | None:
    """The next line; None at the end."""
    line: asyncio.Task[bytes | None] = asyncio.create_task(_line(lines))
    try:
        await asyncio.wait({line, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise UnreachableError("away")
        return await line
    finally:
        line.cancel()
        await asyncio.gather(line, return_exceptions=True)


async def _line(lines: AsyncIterator[bytes]) -> bytes | None:
    return await anext(lines, None)
