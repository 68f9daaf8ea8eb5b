"""`python -m rowen.operator`."""

import asyncio
import signal
import sys

from prometheus_client import start_http_server

from rowen.kube import logs
from rowen.kube.client import open_client
from rowen.kube.process import run_component
from rowen.operator.app import Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world.cluster import Cluster


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
    logs.configure(settings.log_level)
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
    """Runs until SIGTERM or SIGINT. Gives the exit code of `run_component`."""
    return run_component(Settings, run)


if __name__ == "__main__":
    sys.exit(main())
