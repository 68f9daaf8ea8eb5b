"""An informer that is kept, of a server that answers oddly."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kube.odd import Odd, status, watched

from rowen.kube.informer import Informer
from rowen.kube.resource import Resource

THINGS = Resource("Thing", "v1", "things", "a=b")
LIST, WATCH = "/api/v1/things", "watch /api/v1/things"
EXPIRED = [
    status(410, "Expired", "too old"),
    watched({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
]


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not come to that")


@asynccontextmanager
async def kept(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


def begun(odd: Odd) -> list[str]:
    """From where watches began."""
    return [query["resourceVersion"] for query in odd.queries(WATCH)]
