"""Arms under requests."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import httpx
from coserving import measuring
from coserving.load import Size, Traffic
from coserving.measuring import Alone, tokens_by
from rig.two_servers import MODEL
from row_riding.arms import Arm, sending
from row_riding.counters import Counters
from row_riding.node import RowNode
from row_riding.result import Run

from rowen.demo.traffic.replay import Outcome, Progress, replay
from rowen.demo.traffic.scaling import Request

ONLINE = Size(prompt=(16, 96), output=32)
TTFT_FACTOR, TPOT_FACTOR = 5.0, 2.0
"""Bounds over the medians of the server alone."""
_SETTLE_SECONDS = 2.0


def alone(url: str, requests: int) -> Alone:
    """The speed of the server at that address, with these bounds. Raises `RuntimeError` where it answers nothing."""
    found = measuring.alone(url, requests, ONLINE)
    return replace(found, ttft_factor=TTFT_FACTOR, tpot_factor=TPOT_FACTOR)


def measure(node: RowNode, arm: Arm, traffic: Traffic) -> Run:
    """Has rows under way, lets them settle, and replays the requests.

    Raises:
        httpx.HTTPError: The server fails.
        RuntimeError: Rows were to ride, and none did.
    """
    running = node.worker_runs() if arm.kind == "preempt" else contextlib.nullcontext()
    with running:
        rode = node.riding_tokens()
        outcomes, took, tokens = asyncio.run(_traffic(node, arm, traffic))
        if arm.kind == "rowen" and node.riding_tokens() == rode:
            raise RuntimeError("rows were served as if they were requests: none rode")
    return Run(arm.name, arm.kind, traffic.load, traffic.rate, traffic.block, took, tokens, tuple(outcomes))


async def _traffic(node: RowNode, arm: Arm, traffic: Traffic) -> tuple[list[Outcome], float, float]:
    """What became of the requests, how long it took, and the tokens of rows meanwhile."""
    url, requests = node.url(arm.server), traffic.requests()
    async with (
        httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False) as client,
        sending(arm, url, f"{traffic.load:g} {traffic.block} {traffic.seed}"),
    ):
        await asyncio.sleep(_SETTLE_SECONDS)
        before, worker = await Counters.read(client), node.worker_tokens()
        replaying = asyncio.ensure_future(_replayed(url, requests))
        await asyncio.sleep(traffic.seconds)
        # What is done after that counts for nobody: who made requests wait the longest has the most time without any.
        now, after, worked = time.time(), await Counters.read(client), node.worker_tokens() - worker
        outcomes = await replaying
    online = sum(map(partial(tokens_by, now), requests, outcomes))
    tokens = after.tokens - before.tokens - online if arm.rows else 0.0
    return outcomes, after.seconds - before.seconds, float(worked) if arm.kind == "preempt" else tokens


async def _replayed(url: str, requests: Sequence[Request]) -> list[Outcome]:
    return await replay(requests, endpoint=lambda: url, model=MODEL, progress=Progress())
