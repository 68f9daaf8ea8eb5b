"""Ways to have rows answered beside a service's requests."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import httpx
from rig.two_servers import MODEL
from row_riding.counters import Counters
from row_riding.node import Body, rows

from rowen.runtime.vllm.rows.marker import ID_HEADER, row_id

MOST_WAITING, MOST_CACHE = 5, 0.8
"""Beyond which llm-d's gateway takes an engine for saturated: requests that wait in it, and its cache in use."""
_LOOK_SECONDS = 0.1
Admission = Callable[[], Awaitable[None]]
"""Returns when a row may be sent."""


@dataclass(frozen=True)
class Arm:
    """`rows` requests are under way at any time, sent to `server` in the way of the arm's name."""

    kind: str
    server: str
    rows: int = 0

    @property
    def name(self) -> str:
        """Of this kind and so many rows."""
        return f"{self.kind}_{self.rows}" if self.rows else self.kind


def arms_of(levels: tuple[int, ...], riding: int) -> list[Arm]:
    """All of them; vLLM's priorities with rows in each of the `levels`, who admits by himself with `riding`.

    Where fewer rows are under way than the engine runs at once, neither priorities nor saturation do anything.
    """
    return [
        Arm("alone", "plain"),
        *(Arm("priority", "plain", level) for level in (*levels, riding)),
        Arm("gateway", "plain", riding),
        Arm("preempt", "rowen"),
        Arm("rowen", "rowen", riding),
    ]


@contextlib.asynccontextmanager
async def sending(arm: Arm, url: str, run: str) -> AsyncIterator[None]:
    """Rows are under way meanwhile, none of which the server has seen in another run: it would have them cached."""
    bodies = itertools.cycle(rows(500, f"{arm.name} {run}"))
    async with httpx.AsyncClient(base_url=url, timeout=None, trust_env=False) as client:
        admitted = _admission(arm, client)
        askers = [asyncio.create_task(_ask(arm, client, bodies, admitted)) for _ in range(arm.rows)]
        try:
            yield
            for asker in askers:
                # One that has ended has failed.
                if asker.done():
                    asker.result()
        finally:
            for asker in askers:
                asker.cancel()
            await asyncio.gather(*askers, return_exceptions=True)


async def _ask(arm: Arm, client: httpx.AsyncClient, bodies: Iterator[Body], admitted: Admission) -> None:
    while True:
        await admitted()
        body = next(bodies) | {"model": MODEL}
        headers = {}
        if arm.kind == "priority":
            body["priority"] = 1
        elif arm.kind == "rowen":
            headers[ID_HEADER] = row_id()
        (await client.post("/v1/completions", json=body, headers=headers)).raise_for_status()


def _admission(arm: Arm, client: httpx.AsyncClient) -> Admission:
    if arm.kind != "gateway":
        return _at_once
    seen: dict[str, Counters] = {}

    async def unsaturated() -> None:
        loop = asyncio.get_running_loop()
        while True:
            before, now = seen.get("at"), loop.time()
            if before is None or now - before.seconds > _LOOK_SECONDS:
                seen["at"] = before = await Counters.read(client)
            if before.waiting <= MOST_WAITING and before.cache < MOST_CACHE:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    return unsaturated


async def _at_once() -> None:
    pass
