"""kopf hands events and probes over on the event loop's own thread, where the store and the queue are used."""

import asyncio
import logging
import threading
from collections.abc import Sized
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import httpx
import kopf
import pytest
from apiserver import ApiServer, free_port
from kopf._cogs.clients.api import request
from kopf._cogs.clients.auth import APIContext
from kube.odd import body, served, status
from operator_cluster import FakeCluster
from operator_process import USER, eventually, grant

from rowen.kube.client import Client
from rowen.operator.world import watch


async def test_kopf_calls_on_the_loops_thread(
    api_server: ApiServer, kube: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
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
            registry=watch.registry(on_event, is_alive, stop.set),
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


def test_kopf_asks_again_without_an_end() -> None:
    backoffs = watch.settings().networking.error_backoffs
    assert not isinstance(backoffs, int | float | Sized)
    for _ in range(2):
        found = list(islice(backoffs, 1000))
        assert (len(found), max(found), found[0]) == (1000, 10.0, 1.0)


async def test_what_is_refused_for_long_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused more often than kopf would have tried by itself."""
    monkeypatch.setattr(watch.Backoffs, "__iter__", lambda _: repeat(0.01))
    async with served(tmp_path) as odd:
        odd.say("/things", *[status(403, "Forbidden", "no right")] * 20, body('{"items": []}'))
        context = APIContext(kopf.ConnectionInfo(server=odd.url))
        try:
            found = await request(
                "get", "/things", settings=watch.settings(), logger=logging.getLogger("test"), context=context
            )
            assert await found.json() == {"items": []}
        finally:
            await context.close()
        assert len(odd.queries("/things")) == 21


def test_kopf_goes_by_the_lease_alone() -> None:
    assert watch.settings().peering.standalone


@pytest.mark.parametrize(("kubeconfig", "server"), [("set", "by kubeconfig"), ("", "by account")])
def test_kopf_logs_in_as_everything_else_does(monkeypatch: pytest.MonkeyPatch, kubeconfig: str, server: str) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: kopf.ConnectionInfo(server="by account"))
    monkeypatch.setattr(kopf, "login_with_kubeconfig", lambda **_: kopf.ConnectionInfo(server="by kubeconfig"))
    found = watch._login()
    assert found is not None
    assert found.server == server


def test_kopf_keeps_nothing_of_what_it_has_handled() -> None:
    storage, patch = watch.settings().persistence.diffbase_storage, kopf.Patch()
    seen = kopf.Body({"metadata": {"name": "job"}, "spec": {"a": 1}})
    essence = storage.build(body=seen)
    storage.store(body=seen, patch=patch, essence=essence)
    assert (dict(essence), dict(patch), storage.fetch(body=seen)) == ({}, {}, None)
