"""The local copy of a resource, against a real API server whose answers come late."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from kr8s.asyncio import Api
from scheduler.stage import Clock, Stage
from scheduler.tap import Tap, until

from rowen.crds.apply import apply_status
from rowen.crds.names import API_VERSION
from rowen.scheduler.facts import Raw, job_view
from rowen.scheduler.mirror import FAILURES, Mirror
from rowen.scheduler.snapshot import JobView

JOBS = "GET offlinejobs"


@pytest.fixture
async def stage(kube: Api, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    yield made
    await made.clear()


def mirror_of(tap: Tap) -> Mirror[JobView]:
    return Mirror(tap.api, API_VERSION, "offlinejobs", job_view, lambda: None)


@contextlib.asynccontextmanager
async def kept(mirror: Mirror[JobView]) -> AsyncIterator[None]:
    """The mirror is kept by list and watch."""
    task = asyncio.create_task(mirror.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def names(mirror: Mirror[JobView], stage: Stage) -> list[str]:
    return sorted(job.name for job in mirror.values() if job.namespace == stage.namespace)


async def delete(stage: Stage, name: str) -> None:
    await stage.delete(API_VERSION, f"offlinejobs/{name}", stage.namespace)


async def test_a_listing_that_lands_after_a_deletion_does_not_bring_the_job_back(stage: Stage) -> None:
    tap = Tap(stage.api)
    mirror = mirror_of(tap)
    await stage.job("j")
    async with kept(mirror):
        await until(lambda: names(mirror, stage) == ["j"])
        held = tap.hold(JOBS)
        listing = asyncio.create_task(mirror.refresh())
        await held.arrived.wait()
        await delete(stage, "j")
        await until(lambda: names(mirror, stage) == [])
        held.release()
        await listing
        assert names(mirror, stage) == []


async def test_a_listing_that_lands_after_a_newer_one_does_not_bring_the_job_back(stage: Stage) -> None:
    """The deletion was seen by a listing only."""
    tap = Tap(stage.api)
    mirror = mirror_of(tap)
    await stage.job("j")
    await mirror.refresh()
    held = tap.hold(JOBS)
    late = asyncio.create_task(mirror.refresh())
    await held.arrived.wait()
    await delete(stage, "j")
    await mirror.refresh()
    assert names(mirror, stage) == []
    held.release()
    await late
    assert names(mirror, stage) == []


async def test_the_answer_to_a_write_does_not_bring_a_deleted_job_back(stage: Stage) -> None:
    mirror = mirror_of(Tap(stage.api))
    await stage.job("j")
    async with kept(mirror):
        await until(lambda: names(mirror, stage) == ["j"])
        answer = await written(stage, "j")
        await delete(stage, "j")
        await until(lambda: names(mirror, stage) == [])
        assert not mirror.put(answer)
        assert names(mirror, stage) == []


async def written(stage: Stage, name: str) -> dict[str, Any]:
    """The API server's answer to a write of the status."""
    meta = {"name": name, "namespace": stage.namespace}
    status = {"evictions": 3}
    manifest = {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": meta, "status": status}
    return await apply_status(stage.api, manifest, manager="test")


async def test_an_older_answer_does_not_replace_a_newer_object(stage: Stage) -> None:
    mirror = mirror_of(Tap(stage.api))
    await stage.job("j")
    before = await stage.get_job("j")
    await written(stage, "j")
    await mirror.refresh()
    assert not mirror.put(before)
    assert [job.status.evictions for job in mirror.values() if job.namespace == stage.namespace] == [3]


async def test_a_listing_older_than_what_was_seen_is_refused(stage: Stage) -> None:
    tap = Tap(stage.api)
    mirror = mirror_of(tap)
    old = Recorded(await listing(stage))
    await stage.job("j")
    await mirror.refresh()
    mirror._api = cast("Api", old)
    with pytest.raises(FAILURES, match="has been seen"):
        await mirror.refresh()
    assert names(mirror, stage) == ["j"]


async def test_a_listing_of_the_version_that_was_seen_is_taken(stage: Stage) -> None:
    mirror = mirror_of(Tap(stage.api))
    await stage.job("j")
    mirror._api = cast("Api", Recorded(await listing(stage)))
    await mirror.refresh()
    await mirror.refresh()
    assert names(mirror, stage) == ["j"]


async def listing(stage: Stage) -> dict[str, Any]:
    async with stage.api.call_api("GET", version=API_VERSION, url="offlinejobs") as response:
        found: dict[str, Any] = response.json()
    return found


class Recorded:
    """Answers with a recorded list; to watches with recorded events, once. Notes from where a watch begins."""

    def __init__(self, body: dict[str, Any], *watches: list[dict[str, Any]]) -> None:
        self._body, self._watches = body, list(watches)
        self.begun: list[str] = []

    @contextlib.asynccontextmanager
    async def call_api(self, method: str, **arguments: Any) -> AsyncIterator["Recorded"]:
        if arguments.get("stream"):
            self.begun.append(arguments["params"]["resourceVersion"])
        yield self

    def json(self) -> dict[str, Any]:
        return self._body

    async def aiter_lines(self) -> AsyncIterator[str]:
        for event in self._watches.pop(0) if self._watches else []:
            yield json.dumps(event)


def raw(version: int, uid: str = "u") -> Raw:
    return {"metadata": {"uid": uid, "name": uid, "resourceVersion": str(version)}}


def event(type_: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {"type": type_, "object": raw(version, uid)}


def recorded(version: int, *watches: list[dict[str, Any]]) -> tuple[Mirror[int], Recorded]:
    """A mirror of versions, fed by an empty list and the watches' events."""
    client = Recorded({"metadata": {"resourceVersion": str(version)}, "items": []}, *watches)
    return Mirror(cast("Api", client), "v1", "things", _version, lambda: None), client


def _version(found: Raw) -> int:
    return int(found["metadata"]["resourceVersion"])


async def test_a_watch_never_begins_before_what_it_has_delivered() -> None:
    mirror, client = recorded(10, [event("ADDED", 20), event("MODIFIED", 15)])
    task = asyncio.create_task(mirror.run())
    await until(lambda: len(client.begun) >= 2)
    task.cancel()
    assert client.begun[:2] == ["10", "20"]
    assert mirror.values() == [20]


async def test_a_replayed_event_does_not_bring_a_deleted_object_back() -> None:
    mirror, client = recorded(10, [event("ADDED", 11), event("DELETED", 12), event("MODIFIED", 13)])
    task = asyncio.create_task(mirror.run())
    await until(lambda: len(client.begun) >= 2)
    task.cancel()
    assert mirror.values() == []


async def test_deletions_are_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, _ = recorded(10)
    mirror._event(event("DELETED", 5))
    await mirror.refresh()
    assert list(mirror._buried) == ["u"]
    monkeypatch.setattr("rowen.scheduler.mirror._BURIED_SECONDS", -1.0)
    await mirror.refresh()
    assert mirror._buried == {}


async def test_nothing_is_silent_before_the_first_list_but_everything_unknown() -> None:
    mirror, _ = recorded(10)
    assert mirror.silent_seconds() == float("inf")
    await mirror.refresh()
    assert mirror.silent_seconds() < float("inf")
