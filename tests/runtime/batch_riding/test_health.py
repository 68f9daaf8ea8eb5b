"""What is remembered of an engine that was away."""

import asyncio

import httpx
import pytest
from runtime.batch_riding.engine import Engine

from rowen.runtime.batch.riding.health import Health
from rowen.runtime.failure import WorkerError


def test_an_engine_that_has_come_back_was_not_ended_by_the_rows_of_before() -> None:
    engine = Engine()

    async def lost_again() -> None:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched = Health(client, lost_seconds=0.1)
            watched.was_working = True
            await watched.come()
            engine.found = {"/health": 503}
            await watched.come()

    with pytest.raises(WorkerError) as raised:
        asyncio.run(lost_again())
    engine.end()
    assert raised.value.reason == "RideLost"
