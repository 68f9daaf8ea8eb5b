"""`python -m rowen.gateway`: OpenAI's Batch API by TLS."""

import asyncio
import ssl
import sys

import structlog

from rowen.gateway.routes.app import create_app
from rowen.gateway.settings import Settings
from rowen.gateway.storage import Storage, open_storage
from rowen.kube import logs, nesting
from rowen.kube.client import open_stranger
from rowen.kube.errors import LoginError
from rowen.kube.serving import http_server, run
from rowen.kube.settings import SettingsError, read_settings
from rowen.kube.tls import context_of, keep_current, read_pair


async def _serve(settings: Settings, tls: ssl.SSLContext, storage: Storage) -> None:
    async with await open_stranger() as stranger:
        server = http_server(create_app(settings, stranger, storage), settings.port, tls)
        await run([keep_current(tls, settings.tls_folder)], [server])


def main() -> int:
    """Runs until SIGTERM.

    Exits 2 for wrong settings and files that cannot be read, 1 where nothing tells how to reach the API server.
    """
    logs.configure()
    nesting.allow()
    try:
        settings = read_settings(Settings)
    except SettingsError as error:
        structlog.get_logger().error("wrong settings", error=str(error))
        return 2
    try:
        tls = context_of(read_pair(settings.tls_folder))
    except OSError as error:
        structlog.get_logger().error("no certificate", folder=str(settings.tls_folder), error=str(error))
        return 2
    try:
        storage = open_storage(settings.storage_uri, settings.storage_secret_folder)
    except (OSError, ValueError) as error:
        structlog.get_logger().error("no credentials for the storage", error=str(error))
        return 2
    try:
        asyncio.run(_serve(settings, tls, storage))
    except LoginError as error:
        structlog.get_logger().error("no way to the API server", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
