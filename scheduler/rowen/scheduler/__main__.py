"""`python -m rowen.scheduler`: the loop and its two HTTP servers in one event loop.

Of several schedulers one works at a time, by the lease `rowen-scheduler`; the others stand by.
"""

import asyncio
import ssl
import sys

import structlog

from rowen.kube import logs, nesting
from rowen.kube.client import open_client
from rowen.kube.election import lead
from rowen.kube.errors import LoginError
from rowen.kube.serving import http_server, run
from rowen.kube.settings import SettingsError, read_settings
from rowen.kube.tls import keep_current
from rowen.scheduler.loop import Loop
from rowen.scheduler.serve.certificate import tls_context
from rowen.scheduler.serve.health import create_health_app
from rowen.scheduler.serve.reviews import Reviews
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.settings import Settings

LEASE = "rowen-scheduler"


async def _serve(settings: Settings, tls: ssl.SSLContext) -> None:
    async with await open_client() as client:
        loop = Loop(client, settings.namespace, settings.agent_namespace, settings.policy)
        work = [lead(client, settings.namespace, LEASE, loop.run)]
        if settings.tls_folder is not None:
            work.append(keep_current(tls, settings.tls_folder))
        servers = (
            http_server(create_health_app(loop, loop.metrics.registry), settings.port),
            http_server(create_app(loop, Reviews(client)), settings.api_port, tls),
        )
        await run(work, servers)


def main() -> int:
    """Runs until SIGTERM.

    Exits 2 for wrong settings and a certificate that cannot be read, 1 where nothing tells how to reach the API server.
    """
    logs.configure()
    nesting.allow()
    try:
        settings = read_settings(Settings)
    except SettingsError as error:
        structlog.get_logger().error("wrong settings", error=str(error))
        return 2
    try:
        tls = tls_context(settings.tls_folder, settings.namespace)
    except OSError as error:
        structlog.get_logger().error("no certificate for the API", folder=str(settings.tls_folder), error=str(error))
        return 2
    try:
        asyncio.run(_serve(settings, tls))
    except LoginError as error:
        structlog.get_logger().error("no way to the API server", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
