"""`python -m rowen.operator`."""

import asyncio
import os
import signal
import sys

import kr8s.asyncio
from prometheus_client import start_http_server
from pydantic import ValidationError

from rowen.operator import logs
from rowen.operator.app import Operator
from rowen.operator.cluster import Cluster
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings, settings_from


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics = Metrics()
    start_http_server(settings.metrics_port)
    operator = asyncio.create_task(Operator(settings, Cluster(await kr8s.asyncio.api()), metrics).run(stop))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({operator, stopped}, return_when=asyncio.FIRST_COMPLETED)
    # While the first listing still fails, nothing else ends the operator.
    await asyncio.wait({operator}, timeout=15)
    operator.cancel()
    await asyncio.gather(operator, return_exceptions=stop.is_set())
    stopped.cancel()


def main() -> int:
    """Command line; returns the exit status."""
    try:
        settings = settings_from(os.environ)
    except ValidationError as error:
        print(f"settings: {error}", file=sys.stderr)  # noqa: T201 - there is no log before the settings
        return 2
    logs.configure(settings.log_level)
    asyncio.run(run(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
