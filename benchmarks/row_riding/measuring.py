"""Arms under requests."""

import asyncio
import contextlib
from collections.abc import Sequence
from statistics import median

import httpx
from coserving.load import Size, poisson
from coserving.measuring import Alone
from reporting.repeat import values_of
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


def alone(node: RowNode, server: str, requests: int) -> Alone:
    """One request after another, of which the last half count. Raises `RuntimeError` where the server fails."""
    found: list[Outcome] = []
    for request in poisson(100.0, requests / 50.0, ONLINE, seed=1)[:requests]:
        found += asyncio.run(_replayed(node.url(server), [Request(0.0, request.prompt, ONLINE.output)]))
    counted = found[len(found) // 2 :]
    errors = [outcome.error for outcome in counted if outcome.error]
    if errors:
        raise RuntimeError(f"{server} fails: {errors[0]}")
    medians = (median(values_of(counted, metric)) for metric in ("ttft", "tpot"))
    return Alone(*medians, ONLINE.output, TTFT_FACTOR, TPOT_FACTOR)


def measure(node: RowNode, arm: Arm, load: float, rate: float, block: int, seconds: float) -> Run:
    """Has rows under way, lets them settle, and replays requests of the rate.

    Raises:
        httpx.HTTPError: The server fails.
        RuntimeError: Rows were to ride, and none did.
    """
    requests = poisson(rate, seconds, ONLINE, block) if rate else []
    running = node.worker_runs() if arm.kind == "preempt" else contextlib.nullcontext()
    with running:
        before, rode = node.worker_tokens(), node.riding_tokens()
        outcomes, took, tokens = asyncio.run(_traffic(node, arm, requests, block, seconds))
        if arm.kind == "preempt":
            tokens = float(node.worker_tokens() - before) * took / (took + _SETTLE_SECONDS)
        if arm.kind == "rowen" and node.riding_tokens() == rode:
            raise RuntimeError("rows were served as if they were requests: none rode")
    return Run(arm.name, arm.kind, load, rate, block, took, tokens, tuple(outcomes))


async def _traffic(
    node: RowNode, arm: Arm, requests: Sequence[Request], block: int, seconds: float
) -> tuple[list[Outcome], float, float]:
    """What became of the requests, how long it took, and the tokens of rows meanwhile."""
    url = node.url(arm.server)
    async with (
        httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False) as client,
        sending(arm, url, block),
    ):
        await asyncio.sleep(_SETTLE_SECONDS)
        before = await Counters.read(client)
        outcomes, _ = await asyncio.gather(_replayed(url, requests), asyncio.sleep(seconds))
        after = await Counters.read(client)
    online = sum(len(request.prompt) for request in requests) + sum(outcome.tokens for outcome in outcomes)
    return outcomes, after.seconds - before.seconds, after.tokens - before.tokens - online if arm.rows else 0.0


async def _replayed(url: str, requests: Sequence[Request]) -> list[Outcome]:
    return await replay(requests, endpoint=lambda: url, model=MODEL, progress=Progress())
