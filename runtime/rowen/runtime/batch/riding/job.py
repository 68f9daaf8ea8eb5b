"""A batch job whose rows ride: the engine is there, and has the model."""

import asyncio

import httpx

from rowen.runtime.batch.output import Output
from rowen.runtime.batch.riding.engine import joined
from rowen.runtime.batch.riding.health import Health
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner
from rowen.runtime.coserve.ride_link import RideLink, ride_link
from rowen.runtime.worker import Progress

_CONNECT_SECONDS = 10.0
# How long a row takes is not bounded: it waits while the engine's online requests leave nothing of its steps.
_TIMEOUT = httpx.Timeout(None, connect=_CONNECT_SECONDS, write=60.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)
_STAY_SECONDS = 0.5
"""Between two looks at the agent while rows are on their way."""


async def answer_rest(url: str, rows: Rows, output: Output, progress: Progress) -> None:
    """Has the engine at `url` answer the rows that have no result. Raises `WorkerError`, `OSError`."""

    def answered(tokens: int) -> None:
        progress.report(len(output.done), len(rows), tokens)

    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT, limits=_LIMITS, trust_env=False) as client:
        health = Health(client)
        server = await joined(client, health, answered)
        await _while_there(health, BatchRunner(server, output, progress, server.model), rows)


async def _while_there(health: Health, runner: BatchRunner, rows: Rows) -> None:
    """Raises `WorkerError` when the engine is lost, whatever rows are on their way."""
    watching, running = asyncio.create_task(health.watch()), asyncio.create_task(runner.run(rows))
    staying, tasks = asyncio.create_task(_stay(ride_link())), (running, watching)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, staying):
            task.cancel()
        await asyncio.gather(*tasks, staying, return_exceptions=True)
    for task in done:
        task.result()


async def _stay(link: RideLink | None) -> None:
    """Lets agents know of the job, also while no row is answered; None: there is none to tell."""
    if link is None:
        return
    link.go_unpaired()
    while True:
        link.stay()
        await asyncio.sleep(_STAY_SECONDS)
