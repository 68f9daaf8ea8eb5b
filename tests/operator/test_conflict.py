"""A status that was decided on a version that is no longer the newest is not written, and decided anew."""

from collections.abc import Mapping
from typing import Any

import pytest
from manifests import apply, apply_status
from operator_builders import FINE_TUNE, GAP_SECONDS, IMAGE, NOW, START_DEADLINE_SECONDS, job_manifest, placed
from prometheus_client import CollectorRegistry

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError, UnreachableError
from rowen.operator.decision import Note
from rowen.operator.metrics import Metrics
from rowen.operator.reconciler import Reconciler, _OutdatedError
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

JOB = Key("OfflineJob", "team", "job")
CONFLICT = RefusedError(409, "Conflict", "the object has been modified")


class Changing(Cluster):
    """A cluster whose job has changed unseen."""

    def __init__(self, newest: dict[str, Any] | None) -> None:
        self.newest = newest
        self.away = False
        self.pods: list[str] = []
        self.written: list[str] = []
        self.notes: list[str] = []

    async def read(self, key: Key) -> dict[str, Any] | None:
        if self.away:
            raise UnreachableError("away")
        return self.newest

    async def create_pod(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.pods.append(manifest["metadata"]["name"])
        metadata = {**manifest["metadata"], "uid": "pod", "resourceVersion": "5"}
        return {**manifest, "metadata": metadata, "status": {"phase": "Pending"}}

    async def write_status(self, owner: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        version = owner["metadata"]["resourceVersion"]
        if self.newest is None or version != self.newest["metadata"]["resourceVersion"]:
            raise CONFLICT
        self.written.append(version)
        metadata = {**owner["metadata"], "resourceVersion": str(int(version) + 1)}
        return {**owner, "metadata": metadata, "status": dict(status)}

    async def post(self, owner: Mapping[str, Any], note: Note, now: float) -> None:
        self.notes.append(note.reason)


class Play:
    """The reconciler of one job."""

    def __init__(self, newest: dict[str, Any] | None, **status: Any) -> None:
        self.cluster, self.registry = Changing(newest), CollectorRegistry()
        self.store = Store(groups, lambda: NOW)
        self.store.put("OfflineJob", job_manifest(status=status))
        world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: NOW)
        world.heard_listing()
        self.reconciler = Reconciler(self.store, world, self.cluster, Metrics(self.registry), lambda: NOW)

    def count(self, result: str) -> float:
        labels = {"kind": "OfflineJob", "result": result}
        return self.registry.get_sample_value("rowen_reconciles_total", labels) or 0.0


async def test_it_is_decided_anew_at_once_on_what_is_there_now() -> None:
    play = Play(job_manifest({"fineTune": FINE_TUNE, "suspend": True}, resourceVersion="2"))
    assert await play.reconciler.reconcile(JOB) == 0.0
    assert (play.cluster.written, play.cluster.notes, play.count("outdated")) == ([], [], 1.0)
    await play.reconciler.reconcile(JOB)
    assert (play.cluster.written, play.count("ok")) == (["2"], 1.0)
    stored = play.store.get(JOB)
    assert stored is not None
    suspended = [entry for entry in stored["status"]["conditions"] if entry["type"] == "Suspended"]
    assert [entry["status"] for entry in suspended] == ["True"]


async def test_what_was_done_is_told_though_the_status_is_outdated() -> None:
    play = Play(job_manifest(status=placed(), resourceVersion="2"), **placed())
    assert await play.reconciler.reconcile(JOB) == 0.0
    assert (play.cluster.pods, play.cluster.notes, play.cluster.written) == (["job-1"], ["Started"], [])
    await play.reconciler.reconcile(JOB)
    assert (play.cluster.pods, play.cluster.notes, play.cluster.written) == (["job-1"], ["Started"], ["2"])


async def test_versions_that_went_back_are_asked_for_ever_more_seldom() -> None:
    """What is read is older than what is known, so each decision is outdated."""
    play = Play(job_manifest(resourceVersion="0"))
    assert [await play.reconciler.reconcile(JOB) for _ in range(2)] == [0.0, 0.0]
    for _ in range(2):
        # The queue's back-off.
        with pytest.raises(_OutdatedError):
            await play.reconciler.reconcile(JOB)
    play.cluster.newest = job_manifest(resourceVersion="1")
    await play.reconciler.reconcile(JOB)
    assert (play.cluster.written, play.count("ok"), play.count("outdated")) == (["1"], 1.0, 4.0)
    suspended = {"fineTune": FINE_TUNE, "suspend": True}
    play.store.put("OfflineJob", job_manifest(suspended, resourceVersion="5"))
    play.cluster.newest = job_manifest(suspended, resourceVersion="9")
    assert await play.reconciler.reconcile(JOB) == 0.0, "a new row"


async def test_an_object_that_is_gone_is_left_to_the_watch() -> None:
    play = Play(None)
    assert await play.reconciler.reconcile(JOB) == 0.0
    assert play.store.get(JOB) is not None


async def test_one_that_cannot_be_read_again_waits_as_after_any_failure() -> None:
    play = Play(job_manifest(resourceVersion="2"))
    play.cluster.away = True
    with pytest.raises(UnreachableError):
        await play.reconciler.reconcile(JOB)
    assert play.count("error") == 1.0


async def test_the_api_server_refuses_a_version_that_is_not_the_newest(kube: Client, namespace: str) -> None:
    job = {"apiVersion": "rowen.dev/v1alpha1", "kind": "OfflineJob", "metadata": {"name": "a", "namespace": namespace}}
    seen = await apply(kube, {**job, "spec": {"fineTune": FINE_TUNE}}, manager="user")
    cluster = Cluster(kube)
    await apply_status(kube, {**job, "status": {"conditions": []}}, manager="other")
    with pytest.raises(RefusedError) as refusal:
        await cluster.write_status(seen, {"state": "Pending"})
    assert refusal.value.status == 409
    newest = await cluster.read(Key("OfflineJob", namespace, "a"))
    assert newest is not None
    stored = await cluster.write_status(newest, {"state": "Pending"})
    assert stored["status"]["state"] == "Pending"
    assert await cluster.read(Key("OfflineJob", namespace, "none")) is None
