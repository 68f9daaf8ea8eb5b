"""A node is lost by silence that somebody listened to, and by nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from operator_beats import NoBeats
from operator_builders import (
    GAP_SECONDS,
    IMAGE,
    NODE,
    NOW,
    START_DEADLINE_SECONDS,
    job_manifest,
    report_manifest,
)
from prometheus_client import CollectorRegistry

from rowen.kube.errors import KubeError, RefusedError, StaleListError, UnreachableError
from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer
from rowen.kube.listing import Listing
from rowen.kube.resource import Resource
from rowen.kube.timestamps import rfc3339
from rowen.operator.app import RESYNC_MARGIN_SECONDS, Operator
from rowen.operator.jobs.policy import decide
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.resources import JOBS, PODS
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

HOUR = 3600.0
LOST_SECONDS = 60.0
"""Silence within which no node is lost: two leases."""
JOB = Key("OfflineJob", "team", "job")
OWNER = {"apiVersion": "rowen.dev/v1alpha1", "kind": "OfflineJob", "name": "job", "uid": "u1", "controller": True}
STUCK: dict[str, Any] = {
    "metadata": {
        "name": "job-1",
        "namespace": "team",
        "uid": "p1",
        "resourceVersion": "1",
        "labels": {"rowen.dev/job-uid": "u1", "rowen.dev/attempt": "1"},
        "ownerReferences": [OWNER],
        "deletionTimestamp": rfc3339(NOW - HOUR),
    },
    "spec": {"nodeName": NODE, "containers": [{"name": "worker"}]},
    "status": {"phase": "Running"},
}


class Listener:
    """A world with a pod whose deletion is long due; `ahead` is its node's clock."""

    def __init__(self, ahead: float = 0.0, *, reported: bool = True) -> None:
        self.now = NOW
        self.ahead = ahead
        self.store = Store(groups, lambda: self.now)
        self.world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: self.now)
        self._version = 0
        self.store.put("Pod", STUCK)
        self.store.put("OfflineJob", job_manifest())
        if reported:
            self.report()

    def report(self, **status: Any) -> None:
        self._version += 1
        manifest = report_manifest(time=self.now + self.ahead)
        manifest["status"] |= status
        manifest["metadata"]["resourceVersion"] = str(self._version)
        self.store.put("NodeHarvest", manifest)
        self.world.report(NODE)

    def forced(self, after: float = 0.0, sign: Callable[[World], None] | None = World.heard_event) -> bool:
        """Whether the pod is deleted by force so many seconds later; `sign` is heard in that moment."""
        self.now += after
        if sign:
            sign(self.world)
        job = self.world.job(JOB, self.now)
        assert job is not None
        return any(removal.force for removal in decide(job, self.now).removals)

    def kept(self, seconds: float = LOST_SECONDS, sign: Callable[[World], None] = World.heard_event) -> bool:
        """Whether the pod is left alone for so long, with a sign at its end and each half minute."""
        while seconds > 0.0:
            step = min(30.0, seconds)
            if self.forced(step, sign):
                return False
            seconds -= step
        return True


@pytest.mark.parametrize("ahead", [HOUR, 0.0, -HOUR])
def test_a_node_is_lost_after_so_much_silence_whatever_its_clock(ahead: float) -> None:
    node = Listener(ahead)
    assert not node.forced(0, World.heard_listing)
    assert node.kept()
    node.report()
    assert node.kept()
    assert node.forced(0.001)


def test_a_report_that_is_seen_for_the_first_time_is_a_sign_of_life() -> None:
    """A listing after a restart finds old ones, and a new node's clock may be behind."""
    node = Listener(-HOUR, reported=False)
    assert not node.forced(0, World.heard_listing)
    assert not node.forced(20)
    node.report()
    assert node.kept()
    assert node.forced(0.001)


def test_a_report_that_cannot_be_read_is_a_sign_of_life_when_it_changes() -> None:
    node = Listener()
    node.forced(0, World.heard_listing)
    for _ in range(3):
        assert node.kept()
        node.report(updateTime=None, backend="of a newer version")
    assert node.kept()
    assert node.forced(0.001), "it has not changed"


def test_a_report_without_a_time_is_none_however_often_it_changes() -> None:
    node = Listener()
    node.forced(0, World.heard_listing)
    node.report(updateTime=None)
    assert node.kept()
    node.report(updateTime=None, devices=[])
    assert node.forced(0.001)


def test_a_node_without_a_report_is_lost_once_it_could_have_reported() -> None:
    node = Listener(reported=False)
    assert not node.forced(0, World.heard_listing)
    assert node.kept()
    assert node.forced(0.001)


def test_an_outage_is_not_the_nodes_silence() -> None:
    node = Listener()
    node.forced(0, World.heard_listing)
    assert not node.forced(10)
    assert not node.forced(60, World.heard_nothing)
    assert not node.forced(1, World.heard_event), "events alone do not tell what was missed"
    assert node.kept(LOST_SECONDS + 10.0)
    assert not node.forced(0, World.heard_listing)
    assert node.kept()
    assert node.forced(0.001)


@pytest.mark.parametrize("sign", [World.heard_event, World.heard_listing])
def test_a_gap_is_not_the_nodes_silence(sign: Callable[[World], None]) -> None:
    within, longer = Listener(), Listener()
    for node in (within, longer):
        node.forced(0, World.heard_listing)
        assert node.kept(30.0, sign)
    assert within.forced(GAP_SECONDS, sign)
    assert not longer.forced(GAP_SECONDS + 0.001, sign)
    assert longer.kept(sign=sign)
    assert longer.forced(0.001, sign)


def test_what_comes_after_the_last_sign_does_not_count() -> None:
    node = Listener()
    node.forced(0, World.heard_listing)
    assert not node.forced(LOST_SECONDS + 10.0, None)


def test_a_clock_that_was_put_back_begins_anew() -> None:
    node = Listener(reported=False)
    node.forced(0, World.heard_listing)
    assert not node.forced(-HOUR)
    assert node.kept()
    assert node.forced(0.001)


class Stuck(Cluster):
    """A cluster with that job and that pod, whose listings fail when told to."""

    def __init__(self) -> None:
        self.failures: list[KubeError] = []

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        return NoBeats()

    async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
        if self.failures:
            raise self.failures.pop()
        items = {JOBS: [job_manifest(resourceVersion="1")], PODS: [STUCK]}.get(resource, [])
        return Listing(tuple(kept(item) for item in items), 1)


@pytest.mark.parametrize("failure", [UnreachableError("away"), RefusedError(503, "", ""), StaleListError()])
async def test_the_operator_listens_from_its_first_listing_and_anew_after_one_that_failed(
    failure: KubeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, cluster, settings = [NOW], Stuck(), Settings(runtime_image="i")
    operator = Operator(settings, cluster, Metrics(CollectorRegistry()), lambda: now[0])

    def since() -> float | None:
        job = operator._world.job(JOB, now[0])
        return job.listening.since if job and job.listening else None

    async def no_pause(_: float) -> None:
        assert since() is None, "nothing is heard while listings fail"

    monkeypatch.setattr("rowen.operator.app.asyncio.sleep", no_pause)
    await operator._resync_until_done()
    assert since() == NOW
    now[0] += settings.resync_seconds + RESYNC_MARGIN_SECONDS
    await operator._resync_until_done()
    assert since() == NOW
    now[0] += settings.resync_seconds + RESYNC_MARGIN_SECONDS
    operator.on_event("Pod", STUCK, False)
    assert since() == NOW
    now[0] += 1
    cluster.failures = [failure]
    await operator._resync_until_done()
    assert since() == now[0]
