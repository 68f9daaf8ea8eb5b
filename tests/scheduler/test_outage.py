"""Whether a node is lost, or a running scheduler could not hear it: with a real API server that goes away."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest
from scheduler.stage import Clock, Stage, condition
from scheduler.steps import kept
from scheduler.tap import Tap, until

from rowen.kube.client import Client
from rowen.scheduler.loop import Loop
from rowen.scheduler.policy import Policy


class ShortLease(Policy):
    """So that losses do not take long."""

    lease_seconds: ClassVar[int] = 4


QUICK = ShortLease(lease_grace_seconds=1.0)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short lease leaves no time for the pauses that a busy API server is given."""
    monkeypatch.setattr("rowen.kube.informer._LONGEST_PAUSE_SECONDS", 1.0)


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.service()
    yield made
    await made.clear()


@contextlib.asynccontextmanager
async def running(stage: Stage, client: Client) -> AsyncIterator[Loop]:
    """A scheduler that runs by itself, on the real clock."""
    loop = Loop(client, stage.namespace, stage.namespace, QUICK)
    task = asyncio.create_task(loop.run())
    try:
        yield loop
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_only_node_is_lost_although_nothing_comes_by_itself(stage: Stage) -> None:
    """A cluster in which all is silent: only an answer of the API server tells that it can be heard."""
    tap = Tap(stage.client)
    node = await stage.node("a")
    async with running(stage, tap.client):
        await stage.job("j")
        async with stage.alive(node):
            await stage.await_job("j", lambda status: "assignment" in status)
        tap.calls.clear()
        began = time.monotonic()
        lost = await stage.await_job("j", lambda status: "assignment" not in status)
        assert condition(lost["status"], "Placed")["reason"] == "NodeLost"
        assert 1 <= tap.calls.count("GET leases") <= time.monotonic() - began + 2


async def test_an_outage_longer_than_the_lease_costs_no_job(stage: Stage) -> None:
    tap = Tap(stage.client)
    node = await stage.node("a")
    async with running(stage, tap.client) as loop:
        await stage.job("j")
        async with stage.alive(node):
            found = await stage.await_job("j", lambda status: "assignment" in status)
        tap.cut()
        await asyncio.sleep(8)
        tap.mend()
        tap.calls.clear()
        await until(lambda: "WATCH leases" in tap.calls and loop.cluster.current())
        await asyncio.sleep(2)
        since = time.time()
        async with stage.alive(node):
            await stage.heard(loop, node, since)
            await loop.step()
        after = await stage.get_job("j")
        assert kept(after["status"], found["status"]["assignment"]["id"])


async def test_a_watch_that_hangs_is_no_silence(stage: Stage) -> None:
    """The API server answers, and the node is alive, but nothing comes."""
    tap = Tap(stage.client)
    node = await stage.node("a")
    async with running(stage, tap.client) as loop, stage.alive(node):
        await stage.job("j")
        found = await stage.await_job("j", lambda status: "assignment" in status)
        tap.deaf.add("WATCH leases")
        # Well above the lease: only a listing can show that the node is alive.
        await asyncio.sleep(QUICK.lease_seconds + 3.0)
        await stage.heard(loop, node, time.time() - QUICK.lease_seconds)
        after = await stage.get_job("j")
        assert kept(after["status"], found["status"]["assignment"]["id"])


async def test_a_loop_that_was_stalled_did_not_listen(stage: Stage) -> None:
    node = await stage.node("a")
    async with running(stage, stage.client) as loop:
        await stage.job("j")
        async with stage.alive(node):
            found = await stage.await_job("j", lambda status: "assignment" in status)
        time.sleep(7)  # noqa: ASYNC251
        await asyncio.sleep(1.5)
        since = time.time()
        async with stage.alive(node):
            await stage.heard(loop, node, since)
            await loop.step()
        after = await stage.get_job("j")
        assert kept(after["status"], found["status"]["assignment"]["id"])
