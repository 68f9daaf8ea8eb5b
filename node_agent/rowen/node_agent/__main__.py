"""`python -m rowen.node_agent`: the agent of one node."""

import asyncio
import resource
import sys

import structlog
import yaml

from rowen.kube import logs, nesting
from rowen.kube.client import open_client
from rowen.kube.errors import LoginError
from rowen.kube.serving import http_server, run
from rowen.kube.settings import read_settings
from rowen.node_agent.agent import Agent
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import Settings, read_devices
from rowen.node_agent.node import Node
from rowen.node_agent.server import create_app

log = structlog.get_logger()


async def _serve(settings: Settings, node: Node) -> None:
    async with await open_client() as client:
        agent = Agent(settings, node, Cluster(client, settings.node, client.namespace))
        await run([agent.run()], [http_server(create_app(agent), settings.port)])


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
