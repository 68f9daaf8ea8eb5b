"""A batch job whose rows ride: the engine is there, and has the model."""

import asyncio
from functools import partial

import httpx

from rowen.crds.job.worker import ModelLocation
from rowen.runtime.batch.output import Output
from rowen.runtime.batch.riding.engine import joined
from rowen.runtime.batch.riding.health import Health
from rowen.runtime.batch.riding.model_length import model_length
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner
from rowen.runtime.coserve.ride_link import STAY_SECONDS, RideLink, ride_link
from rowen.runtime.worker import Progress

_CONNECT_SECONDS = 10.0
# How long a row takes is not bounded: it waits while the engine's online requests leave nothing of its steps.
_TIMEOUT = httpx.Timeout(None, connect=_CONNECT_SECONDS, write=60.0)
# vLLM closes a connection after 5 s without a request: what is sent just then is lost.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0)


async def answer_rest(
    url: str, pod: str | None, model: ModelLocation, rows: Rows, output: Output, progress: Progress
) -> None:
    """Has the engine of the model at `url` answer the rows that have no result. `pod`: name of its pod, where known.

    Raises `WorkerError`, `OSError`.
    """

    def answered(tokens: int) -> None:
        progress.report(len(output.done), len(rows), tokens)

    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT, limits=_LIMITS, trust_env=False) as client:
        health = Health(client, pod)
        server = await joined(client, health, answered, partial(model_length, model))
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
        await asyncio.sleep(STAY_SECONDS)
