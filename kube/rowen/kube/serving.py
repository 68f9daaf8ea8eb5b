"""A process that works, and serves HTTP beside it, in one event loop."""

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Coroutine, Sequence
from typing import Any

import uvicorn

_LAST_SECONDS = 10
"""So long a server that ends waits for requests under way, and for callers by TLS to say that they have heard of it."""


def http_server(app: Any, port: int, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Serves an ASGI application on all addresses, in clear or by TLS alone."""
    config = uvicorn.Config(
        app,
        host="0.0.0.0",  # noqa: S104
        port=port,
        log_config=None,
        timeout_graceful_shutdown=_LAST_SECONDS,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    server = uvicorn.Server(config)
    # uvicorn's own handlers would raise the signal a second time.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    return server


async def run(work: Sequence[Coroutine[Any, Any, None]], servers: Sequence[uvicorn.Server]) -> None:
    """Until SIGTERM or SIGINT, or until a piece of work or a server ends; then all end. Raises what work raised."""
    working = [asyncio.create_task(piece) for piece in work]
    serving = [asyncio.create_task(server.serve()) for server in servers]
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((*working, *serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    for server in servers:
        server.should_exit = True
    for task in working:
        task.cancel()
    for task in working:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await asyncio.gather(*serving)
