"""Bounds what a request may send, and how long it may take over it."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

MOST_BYTES = 2**18
SECONDS = 10.0

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class BodyLimit:
    """Reads a request's whole body before anybody looks at it: 413 above `MOST_BYTES`, 408 after `SECONDS`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(SECONDS):
                body = await _whole(receive)
        except TimeoutError:
            refusal = 408, f"the body did not come within {SECONDS:.0f} s"
        except ConnectionError:
            return
        else:
            if body is not None:
                await self._app(scope, _again(body, receive), send)
                return
            refusal = 413, f"the body is larger than {MOST_BYTES} bytes"
        await JSONResponse({"detail": refusal[1]}, refusal[0], {"Connection": "close"})(scope, receive, send)


async def _whole(receive: Receive) -> bytes | None:
    """The body; None where it is too large. Raises `ConnectionError` where the caller has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once more, then what comes after it."""
    rest = [body]

    async def told() -> Message:
        return {"type": "http.request", "body": rest.pop(), "more_body": False} if rest else await receive()

    return told
