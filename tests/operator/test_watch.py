"""kopf hands events and probes over on the event loop's own thread, where the store and the queue are used."""

import asyncio
import threading
from typing import Any

import httpx
import kopf
import kr8s.asyncio
import pytest
from apiserver import ApiServer, free_port
from operator_cluster import FakeCluster
from operator_process import USER, eventually, grant

from rowen.operator import watch


async def test_kopf_calls_on_the_loops_thread(
    api_server: ApiServer, kube: kr8s.asyncio.Api, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grant(kube)
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig_for(USER)))
    loops_thread, stop, port = threading.get_ident(), asyncio.Event(), free_port()
    events: dict[tuple[str, bool], int] = {}
    probes: list[int] = []

    def on_event(kind: str, manifest: dict[str, Any], deleted: bool) -> None:
        if manifest["metadata"].get("namespace") == cluster.namespace:
            events[kind, deleted] = threading.get_ident()

    def is_alive() -> bool:
        probes.append(threading.get_ident())
        return True

    async def probed() -> bool:
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            try:
                await client.get(f"http://127.0.0.1:{port}/healthz")
            except httpx.TransportError:
                return False
        return bool(probes)

    async def came(kind: str, deleted: bool) -> bool:
        return (kind, deleted) in events

    operator = asyncio.create_task(
        kopf.operator(
            registry=watch.registry(on_event, is_alive),
            settings=watch.settings(),
            clusterwide=True,
            liveness_endpoint=f"http://127.0.0.1:{port}/healthz",
            stop_flag=stop,
        )
    )
    try:
        await cluster.create_job()
        await eventually(lambda: came("OfflineJob", False))
        await cluster.delete("offlinejobs/job", "rowen.dev/v1alpha1")
        await eventually(lambda: came("OfflineJob", True))
        await eventually(probed)
    finally:
        stop.set()
        await operator
    assert set(events.values()) | set(probes) == {loops_thread}
