"""The process of the simulated agents and kubelets: `python -m plane.crowd AGENTS KUBELETS NODES SEED`.

The first two are kubeconfigs; each agent has connections of its own, as on a node: one for the watch of its pods.
Each line that it reads is answered with one: `release` lets held jobs end, `tally` asks what was done so far.
"""

import asyncio
import json
import logging
import random
import resource
import sys
from contextlib import AsyncExitStack

import structlog
from plane.agents import Agent, Tally
from plane.kubelets import Kubelets
from reporting.jitter import percentile

from rowen.kube.client import open_client


def answer(line: str, tally: Tally, kubelets: Kubelets) -> str:
    """To a line that was read; a tally begins a new count of lateness."""
    if line.strip() == "release":
        kubelets.released.set()
    late, tally.late_seconds = tally.late_seconds, []
    return json.dumps(
        {
            "reports": tally.reports,
            "failures": tally.failures,
            "late_seconds_p99": percentile(late, 0.99) if late else 0.0,
            "pods_ended": kubelets.ended,
        }
    )


async def _commands(tally: Tally, kubelets: Kubelets) -> None:
    """Until standard input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        print(answer(line.decode(), tally, kubelets), flush=True)


async def run(agents: str, kubelets: str, nodes: int, seed: int) -> None:
    """All of them, until standard input ends."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await open_client(agents)) for _ in range(nodes)]
        kubelets_client = await stack.enter_async_context(await open_client(kubelets))
        source, tally, simulated = random.Random(seed), Tally(), Kubelets(kubelets_client, seed)
        tasks = [
            asyncio.create_task(Agent(client, number, source, tally).run()) for number, client in enumerate(clients)
        ]
        tasks.append(asyncio.create_task(simulated.run()))
        commands = asyncio.create_task(_commands(tally, simulated))
        await asyncio.wait([commands, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (commands, *tasks):
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(commands, *tasks, return_exceptions=True)


def allow_descriptors() -> None:
    """Two connections for each agent; the limit that a program begins with is often 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    allow_descriptors()
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
    )
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
