"""`python -m rowen.scheduler`: the loop and its HTTP server in one event loop."""

import asyncio
import contextlib
import logging
import os
import signal
import sys

import kr8s.asyncio
import structlog
import uvicorn
from pydantic import ValidationError

from rowen.scheduler.loop import Loop
from rowen.scheduler.server import create_app
from rowen.scheduler.settings import Settings, from_environment


def _log_as_json() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def _serve(settings: Settings) -> None:
    api = await kr8s.asyncio.api()
    loop = Loop(api, settings.namespace, settings.policy)
    config = uvicorn.Config(
        create_app(loop, loop.metrics.registry),
        host="0.0.0.0",  # noqa: S104
        port=settings.port,
        log_config=None,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(loop.run())
    serving = asyncio.create_task(_quietly(server))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((running, serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    server.should_exit = True
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await serving


async def _quietly(server: uvicorn.Server) -> None:
    """Serves without uvicorn's own signal handlers, which would raise the signal a second time."""
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    await server.serve()


def main() -> int:
    """Runs until SIGTERM. Exits 2 for wrong settings."""
    _log_as_json()
    try:
        settings = from_environment(os.environ)
    except ValidationError as error:
        structlog.get_logger().error("wrong settings", error=str(error))
        return 2
    asyncio.run(_serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
