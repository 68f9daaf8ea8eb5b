"""What is posted is not lost where a connection ends or the API server is busy, and not made twice."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from rowen.kube.client import Client
from rowen.kube.errors import KubeError, RefusedError, UnreachableError
from rowen.operator.decision import Note
from rowen.operator.world import cluster
from rowen.operator.world.cluster import Cluster

OWNER = {
    "apiVersion": "rowen.dev/v1alpha1",
    "kind": "OfflineJob",
    "metadata": {"name": "a", "namespace": "b", "uid": "c"},
}
NOTE = Note(type="Normal", reason="Started", message="attempt 1")
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-1", "namespace": "b"}}
BUSY = RefusedError(429, "TooManyRequests", "too many requests", 0.0)


class FakeClient:
    """An API server that fails the first calls."""

    def __init__(self, *failures: KubeError) -> None:
        self.failures = list(failures)
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        self.calls.append((method, path, options.get("body") or {}))
        if self.failures:
            raise self.failures.pop(0)
        return dict(options.get("body") or POD)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_POST_PAUSE_SECONDS", 0.0)


def of(client: FakeClient) -> Cluster:
    return Cluster(cast("Client", client))


@pytest.mark.parametrize("failure", [UnreachableError("closed"), BUSY])
async def test_an_event_is_posted_again_by_the_same_name(failure: KubeError) -> None:
    client = FakeClient(failure, failure)
    await of(client).post(OWNER, NOTE, 0.0)
    assert len(client.calls) == 3
    assert {body["message"] for _, _, body in client.calls} == {"attempt 1"}
    assert len({body["metadata"]["name"] for _, _, body in client.calls}) == 1


async def test_a_pod_is_posted_again() -> None:
    client = FakeClient(UnreachableError("closed"))
    assert await of(client).create_pod(POD) == POD
    assert [(method, path) for method, path, _ in client.calls] == [("POST", "/api/v1/namespaces/b/pods")] * 2


async def test_a_pod_that_is_there_already_is_returned() -> None:
    client = FakeClient(UnreachableError("closed"), RefusedError(409, "AlreadyExists", "there"))
    assert await of(client).create_pod(POD) == POD
    assert [method for method, _, _ in client.calls] == ["POST", "POST", "GET"]


async def test_it_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_POST_SECONDS", -1.0)
    client = FakeClient(UnreachableError("closed"), UnreachableError("closed"))
    with pytest.raises(UnreachableError):
        await of(client).post(OWNER, NOTE, 0.0)
    assert len(client.calls) == 1


async def test_a_server_that_asks_to_wait_for_longer_is_not_waited_for() -> None:
    client = FakeClient(RefusedError(429, "TooManyRequests", "busy", 3600.0))
    with pytest.raises(RefusedError):
        await of(client).create_pod(POD)
    assert len(client.calls) == 1


@pytest.mark.parametrize("status", [403, 500])
async def test_what_is_refused_is_not_posted_again(status: int) -> None:
    client = FakeClient(RefusedError(status, "", "no"))
    with pytest.raises(RefusedError):
        await of(client).create_pod(POD)
    assert len(client.calls) == 1
