"""An API client with a hand on its calls, to make a real API server slow, deaf or refusing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
from kr8s.asyncio import Api


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
        self.calls: list[str] = []
        """Every call that was made."""
        self.errors: dict[str, Exception] = {}
        """What calls raise instead of being made; watches that are under way end with it at their next line."""
        self.deaf: set[str] = set()
        """Watches that deliver nothing, as on a connection that hangs."""

    @property
    def api(self) -> Api:
        """As the type that the code expects."""
        return cast("Api", self)

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
        if call in self.errors:
            raise self.errors[call]
        held = self._held.pop(call, None)
        async with self._api.call_api(method, **arguments) as response:
            if held is not None:
                await held.wait()
            yield _Stream(self, call, response) if stream else response


class _Stream:
    def __init__(self, tap: Tap, call: str, response: httpx.Response) -> None:
        self._tap, self._call, self._response = tap, call, response

    async def aiter_lines(self) -> AsyncIterator[str]:
        async for line in self._response.aiter_lines():
            if self._call in self._tap.errors:
                raise self._tap.errors[self._call]
            if self._call not in self._tap.deaf:
                yield line
