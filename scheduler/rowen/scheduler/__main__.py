"""`python -m rowen.scheduler`: the loop and its two HTTP servers in one event loop.

Of several schedulers one works at a time, by the lease `rowen-scheduler`; the others stand by.
"""

import asyncio
import contextlib
import signal
import sys

import structlog
import uvicorn
from fastapi import FastAPI

from rowen.kube import logs, nesting
from rowen.kube.client import open_client
from rowen.kube.election import lead
from rowen.kube.errors import LoginError
from rowen.kube.settings import SettingsError, read_settings
from rowen.scheduler.loop import Loop
from rowen.scheduler.serve.health import create_health_app
from rowen.scheduler.serve.reviews import Reviews
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.settings import Settings

LEASE = "rowen-scheduler"


async def _serve(settings: Settings) -> None:
    async with await open_client() as client:
        loop = Loop(client, settings.namespace, settings.agent_namespace, settings.policy)
        servers = (
            _server(create_health_app(loop, loop.metrics.registry), settings.port),
            _server(create_app(loop, Reviews(client)), settings.api_port),
        )
        running = asyncio.create_task(lead(client, settings.namespace, LEASE, loop.run))
        serving = [asyncio.create_task(_quietly(server)) for server in servers]
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((running, *serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for server in servers:
            server.should_exit = True
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await asyncio.gather(*serving)


def _server(app: FastAPI, port: int) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, host="0.0.0.0", port=port, log_config=None))  # noqa: S104


async def _quietly(server: uvicorn.Server) -> None:
    """Serves without uvicorn's own signal handlers, which would raise the signal a second time."""
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    await server.serve()


def main() -> int:
    """Runs until SIGTERM. Exits 2 for wrong settings, 1 where nothing tells how to reach the API server."""
    logs.configure()
    nesting.allow()
    try:
        settings = read_settings(Settings)
    except SettingsError as error:
        structlog.get_logger().error("wrong settings", error=str(error))
        return 2
    try:
        asyncio.run(_serve(settings))
    except LoginError as error:
        structlog.get_logger().error("no way to the API server", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
