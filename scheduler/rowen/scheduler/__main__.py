"""`python -m rowen.scheduler`: the loop and its two HTTP servers in one event loop.

Of several schedulers one works at a time, by the lease `rowen-scheduler`; the others stand by.
"""

import sys

from rowen.kube.client import open_client
from rowen.kube.election import lead
from rowen.kube.process import run_component
from rowen.kube.serving import http_server, run
from rowen.kube.settings import named
from rowen.kube.tls import keep_current
from rowen.scheduler.loop import Loop
from rowen.scheduler.serve.certificate import tls_context
from rowen.scheduler.serve.health import create_health_app
from rowen.scheduler.serve.reviews import Reviews
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.settings import Settings

LEASE = "rowen-scheduler"


async def _serve(settings: Settings) -> None:
    with named("ROWEN_SCHEDULER_TLS_FOLDER", settings.tls_folder):
        tls = tls_context(settings.tls_folder, settings.namespace)
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
    """Runs until SIGTERM. Gives the exit code of `run_component`."""
    return run_component(Settings, _serve)


if __name__ == "__main__":
    sys.exit(main())
