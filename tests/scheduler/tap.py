"""An API client with a hand on its calls, to make a real API server slow, deaf or refusing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import httpx
import pytest
from kr8s.asyncio import Api


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

    def __init__(self, api: Api) -> None:
        self._api = api
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
    def api(self) -> Api:
        """As the type that the code expects."""
        return cast("Api", self)

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

    @contextlib.asynccontextmanager
    async def call_api(self, method: str = "GET", **arguments: Any) -> AsyncIterator[Any]:
        """As `kr8s.asyncio.Api.call_api`."""
        stream = arguments.get("stream", False)
        call = f"{'WATCH' if stream else method} {arguments['url'].split('/')[0]}"
        self.calls.append(call)
        if self._away.is_set():
            raise httpx.ConnectError("away")
        if call in self.errors:
            raise self.errors[call]
        held = self._held.pop(call, None)
        async with self._api.call_api(method, **arguments) as response:
            if held is not None:
                await held.wait()
            if call in self.lost:
                raise self.lost[call]
            yield _Stream(self, call, response) if stream else response


class _Stream:
    def __init__(self, tap: Tap, call: str, response: httpx.Response) -> None:
        self._tap, self._call, self._response = tap, call, response

    async def aiter_lines(self) -> AsyncIterator[str]:
        lines = aiter(self._response.aiter_lines())
        gone = asyncio.create_task(self._tap.gone())
        try:
            while (line := await self._next(lines, gone)) is not None:
                if self._call not in self._tap.deaf:
                    yield line
        finally:
            gone.cancel()

    @staticmethod
    async def _next(lines: AsyncIterator[str], gone: asyncio.Task[None]) -> str | None:
        """The next line; None at the end."""
        line: asyncio.Task[str | None] = asyncio.create_task(_line(lines))
        try:
            await asyncio.wait({line, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise httpx.ReadError("away")
            return await line
        finally:
            line.cancel()
            await asyncio.gather(line, return_exceptions=True)


async def _line(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)
