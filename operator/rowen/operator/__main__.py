"""`python -m rowen.operator`."""

import asyncio
import signal
import sys

import structlog
from prometheus_client import start_http_server

from rowen.kube import logs, nesting
from rowen.kube.client import open_client
from rowen.kube.errors import LoginError
from rowen.kube.settings import SettingsError, read_settings
from rowen.operator.app import Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world.cluster import Cluster


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics = Metrics()
    start_http_server(settings.metrics_port)
    async with await open_client() as client:
        operator = asyncio.create_task(Operator(settings, Cluster(client), metrics).run(stop))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({operator, stopped}, return_when=asyncio.FIRST_COMPLETED)
        # While the first listing still fails, nothing else ends the operator.
        await asyncio.wait({operator}, timeout=15)
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=stop.is_set())
        stopped.cancel()


def main() -> int:
    """Command line; exits 2 for wrong settings, 1 where nothing tells how to reach the API server."""
    try:
        settings = read_settings(Settings)
    except SettingsError as error:
        print(f"settings: {error}", file=sys.stderr)  # noqa: T201 - there is no log before the settings
        return 2
    logs.configure(settings.log_level)
    nesting.allow()
    try:
        asyncio.run(run(settings))
    except LoginError as error:
        structlog.get_logger().error("no way to the API server", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
