"""The operator is alive while its watch delivers what listings show."""

from collections.abc import Callable
from typing import Any

import kopf
import pytest
from operator_beats import NoBeats
from operator_builders import job_manifest
from prometheus_client import CollectorRegistry

from rowen.kube.errors import RefusedError
from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer
from rowen.kube.listing import Listing
from rowen.kube.resource import Resource
from rowen.operator.app import DEAF_SECONDS, Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world import watch
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.resources import JOBS
from rowen.operator.world.store import Key


class OneJob(Cluster):
    """A cluster with one job."""

    def __init__(self) -> None:
        self.version = 1

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        return NoBeats()

    async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
        items = [job_manifest(resourceVersion=str(self.version))] if resource is JOBS else []
        return Listing(tuple(kept(item) for item in items), self.version)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_deaf_watch_ends_the_operator() -> None:
    cluster, clock = OneJob(), Clock()
    registry = CollectorRegistry()
    operator = Operator(Settings(runtime_image="i"), cluster, Metrics(registry), clock)
    await operator.resync()
    operator.on_event("OfflineJob", job_manifest(resourceVersion="1"), False)
    clock.now += 10 * DEAF_SECONDS
    assert operator.is_alive(), "silence alone is no fault: nothing has changed"
    assert registry.get_sample_value("rowen_last_event_age_seconds") == 10 * DEAF_SECONDS
    cluster.version = 2
    await operator.resync()
    clock.now += DEAF_SECONDS
    assert operator.is_alive()
    clock.now += 1
    assert not operator.is_alive()
    operator.on_event("OfflineJob", job_manifest(resourceVersion="2"), False)
    assert operator.is_alive()


async def test_a_kind_that_is_refused_keeps_no_other_from_being_listed() -> None:
    class Forbidden(OneJob):
        async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
            if resource is not JOBS:
                raise RefusedError(403, "Forbidden", f"{resource.plural} are forbidden")
            return await super().listing(resource, kept)

    operator = Operator(Settings(runtime_image="i"), Forbidden(), Metrics(CollectorRegistry()), Clock())
    with pytest.raises(RefusedError, match="onlineservices are forbidden"):
        await operator.resync()
    assert operator._store.get(Key("OfflineJob", "team", "job")) is not None


async def test_the_probe_fails_for_good() -> None:
    alive = [True]
    probe = watch._probe(lambda: alive[0])
    assert await probe() is True
    alive[0] = False
    with pytest.raises(kopf.PermanentError):
        await probe()
