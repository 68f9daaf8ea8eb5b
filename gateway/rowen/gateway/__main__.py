"""`python -m rowen.gateway`: OpenAI's Batch API by TLS."""

import sys

from prometheus_client import make_asgi_app

from rowen.gateway.metrics import Metrics
from rowen.gateway.routes.app import create_app
from rowen.gateway.settings import Settings
from rowen.gateway.storage import open_storage
from rowen.kube.client import open_stranger
from rowen.kube.process import run_component
from rowen.kube.serving import http_server, run
from rowen.kube.settings import named
from rowen.kube.tls import context_of, keep_current, read_pair


async def _serve(settings: Settings) -> None:
    with named("ROWEN_GATEWAY_TLS_FOLDER", settings.tls_folder):
        tls = context_of(read_pair(settings.tls_folder))
    with named("ROWEN_GATEWAY_STORAGE_SECRET_FOLDER", settings.storage_secret_folder):
        storage = open_storage(settings.storage_uri, settings.storage_secret_folder)
    metrics = Metrics()
    async with await open_stranger() as stranger:
        servers = (
            http_server(create_app(settings, stranger, storage, metrics), settings.port, tls),
            http_server(make_asgi_app(metrics.registry), settings.metrics_port),
        )
        await run([keep_current(tls, settings.tls_folder)], servers)


def main() -> int:
    """Runs until SIGTERM. Gives the exit code of `run_component`."""
    return run_component(Settings, _serve)


if __name__ == "__main__":
    sys.exit(main())
