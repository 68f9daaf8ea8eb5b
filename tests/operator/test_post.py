"""An event or a pod is posted again when its connection was closed under it, a few times and no more."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
from kr8s.asyncio import Api

from rowen.operator.cluster import Cluster
from rowen.operator.decision import Note

OWNER = {
    "apiVersion": "rowen.dev/v1alpha1",
    "kind": "OfflineJob",
    "metadata": {"name": "a", "namespace": "b", "uid": "c"},
}
NOTE = Note(type="Normal", reason="Started", message="attempt 1")


class FakeApi:
    """An API server that closes the first connections."""

    def __init__(self, closed: int) -> None:
        self.closed = closed
        self.calls: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def call_api(self, method: str, **arguments: Any) -> AsyncIterator[httpx.Response]:
        self.calls.append({"method": method, **arguments})
        if len(self.calls) <= self.closed:
            raise httpx.ReadError("")
        yield httpx.Response(201, json=arguments["json"])


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.operator.cluster._POST_PAUSES_SECONDS", (0.0, 0.0, 0.0))


async def test_a_closed_connection_does_not_lose_the_event() -> None:
    api = FakeApi(closed=2)
    await Cluster(cast("Api", api)).post(OWNER, NOTE, 0.0)
    assert len(api.calls) == 3
    assert {call["json"]["message"] for call in api.calls} == {"attempt 1"}


async def test_it_gives_up_after_the_last_pause() -> None:
    api = FakeApi(closed=99)
    with pytest.raises(httpx.ReadError):
        await Cluster(cast("Api", api)).post(OWNER, NOTE, 0.0)
    assert len(api.calls) == 4


async def test_a_closed_connection_does_not_lose_a_pod() -> None:
    api, pod = FakeApi(closed=2), {"metadata": {"name": "job-1", "namespace": "b"}}
    assert await Cluster(cast("Api", api)).create_pod(pod) == pod
    assert [(call["method"], call["url"]) for call in api.calls] == [("POST", "pods")] * 3
