"""`python -m rowen.node_agent`: the agent of one node."""

import asyncio
import contextlib
import resource
import signal
import sys

import structlog
import uvicorn
import yaml

from rowen.kube import logs, nesting
from rowen.kube.client import open_client
from rowen.kube.errors import LoginError
from rowen.kube.settings import read_settings
from rowen.node_agent.agent import Agent
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import Settings, read_devices
from rowen.node_agent.node import Node
from rowen.node_agent.server import create_app

log = structlog.get_logger()


async def _serve(settings: Settings, node: Node) -> None:
    async with await open_client() as client:
        await _serve_with(Agent(settings, node, Cluster(client, settings.node, client.namespace)), settings.port)


async def _serve_with(agent: Agent, port: int) -> None:
    config = uvicorn.Config(create_app(agent), host="0.0.0.0", port=port, log_config=None)  # noqa: S104
    server = uvicorn.Server(config)
    # uvicorn's own handlers would raise the signal a second time.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    running = asyncio.create_task(agent.run())
    serving = asyncio.create_task(server.serve())
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


def _allow_descriptors() -> None:
    """Three for each process that comes in; the limit that a program begins with is often 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> int:
    """Runs the agent; 0: asked to stop, 1: it cannot start.

    The configuration is wrong, the devices cannot be served, or nothing tells how to reach the API server.
    """
    logs.configure()
    nesting.allow()
    _allow_descriptors()
    try:
        settings = read_settings(Settings)
        devices = read_devices(settings)
        log.info("starting", node=settings.node, devices=[device.id for device in devices])
        node = Node(settings, devices)
    except (OSError, ValueError, RuntimeError, yaml.YAMLError) as error:
        log.error("cannot start", error=str(error))
        return 1
    try:
        asyncio.run(_serve(settings, node))
    except LoginError as error:
        log.error("no way to the API server", error=str(error))
        return 1
    finally:
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
