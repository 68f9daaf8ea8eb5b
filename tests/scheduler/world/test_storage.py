"""Volumes and claims as the API server has them, and a scheduler that goes by them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from apiserver import ApiServer
from kube.follow import until
from scheduler.builders import job
from scheduler.stage import Clock, Stage, condition

from rowen.kube.client import Client
from rowen.kube.kinds import NODES
from rowen.kube.objects import apply_status, delete
from rowen.scheduler.placement.constraints import Requirement, Term
from rowen.scheduler.placement.volumes import NO_VOLUMES, Volume, VolumeClaim, Volumes
from rowen.scheduler.policy import Policy
from rowen.scheduler.world.cluster import Cluster
from rowen.scheduler.world.facts import job_view
from rowen.scheduler.world.storage import CLAIMS, VOLUMES, WITHHELD_SECONDS, Storage, read_claim, read_volume

ZONE = "topology.kubernetes.io/zone"


def claim(status: Any = None, volume: str | None = None, **meta: Any) -> dict[str, Any]:
    spec = {"volumeName": volume} if volume is not None else {}
    found: dict[str, Any] = {"metadata": {"namespace": "ns", "name": "data", **meta}, "spec": spec}
    return found if status is None else {**found, "status": status}


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (claim(), VolumeClaim("ns", "data")),
        (claim({}, ""), VolumeClaim("ns", "data")),
        (claim({"phase": "Pending"}, "v"), VolumeClaim("ns", "data", "v")),
        (claim({"phase": "Bound"}, "v"), VolumeClaim("ns", "data", "v", bound=True)),
        (claim({"phase": "Lost"}, "v"), VolumeClaim("ns", "data", "v", lost=True)),
        (claim(deletionTimestamp="2026-01-02T03:04:05Z"), VolumeClaim("ns", "data", deleting=True)),
    ],
)
def test_a_claim_is_read(raw: dict[str, Any], read: VolumeClaim) -> None:
    assert read_claim(raw) == read


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        ({}, None),
        ({"nodeAffinity": None}, None),
        ({"nodeAffinity": {}}, None),
        ({"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}}, ()),
        (
            {"nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
            ]}}},
            (Term((Requirement(ZONE, "In", ("a", "b")),)),),
        ),
    ],
)  # fmt: skip
def test_a_volume_is_read(affinity: dict[str, Any], terms: tuple[Term, ...] | None) -> None:
    assert read_volume({"metadata": {"name": "v"}, "spec": affinity}) == Volume("v", terms)


def test_a_job_names_its_claims_unless_they_are_too_many() -> None:
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"c{at:02}"}} for at in range(65)]
    meta = {"uid": "u", "namespace": "ns", "name": "j", "creationTimestamp": "2026-01-02T03:04:05Z"}
    view = job_view({"metadata": meta, "spec": {"template": {"spec": {"volumes": volumes}}, "memory": "1Gi"}})
    assert view is not None
    assert view.claims == tuple(f"c{at:02}" for at in range(64))


def test_jobs_are_kept_to_their_volumes_anew_where_something_has_changed(kube: Client) -> None:
    storage, terms = Storage(kube, lambda: None), (Term((Requirement(ZONE, "In", ("a",)),)),)
    claims = {("ns", "data"): VolumeClaim("ns", "data", "v", bound=True)}
    here = Volumes(claims, {"v": Volume("v", terms)})
    free, held, other = job("free"), job("held", claims=("data",)), job("held", claims=())
    first = storage.limited([free, held], here)
    assert [[limit.terms for limit in view.constraints.volumes] for view in first] == [[], [terms]]
    again = storage.limited([held, free], here)
    assert again[0] is first[1]
    assert again[1] is free
    assert storage.limited([other], here) == [other]
    assert storage.limited([held], NO_VOLUMES) == [held]
    assert storage.limited([held], here) == [first[1]]


class Heard:
    """An informer that was heard so long ago."""

    def __init__(self, silent: float, *found: object, withheld: bool = False) -> None:
        self.silent, self.found, self.withheld = silent, found, withheld

    def silent_seconds(self) -> float:
        return self.silent

    def lacks_right(self) -> bool:
        return self.withheld

    def values(self) -> list[object]:
        return list(self.found)


@pytest.mark.parametrize(
    ("claims", "volumes", "silent", "known"),
    [
        (Heard(1.0), Heard(2.0), 2.0, True),
        (Heard(float("inf")), Heard(2.0), float("inf"), True),
        # A restarted API server refuses everything for a moment.
        (Heard(3.0, withheld=True), Heard(2.0), 3.0, True),
        (Heard(1.0), Heard(WITHHELD_SECONDS, withheld=True), WITHHELD_SECONDS, True),
        (Heard(1.0), Heard(WITHHELD_SECONDS + 0.1, withheld=True), 1.0, False),
        (Heard(float("inf"), withheld=True), Heard(float("inf"), withheld=True), 0.0, False),
    ],
)
def test_what_was_listed_counts_until_its_right_is_withheld_for_long(
    kube: Client, monkeypatch: pytest.MonkeyPatch, claims: Heard, volumes: Heard, silent: float, known: bool
) -> None:
    storage = Storage(kube, lambda: None)
    claims.found, volumes.found = (VolumeClaim("ns", "data", "v", bound=True),), (Volume("v"),)
    monkeypatch.setattr(storage, "_claims", claims)
    monkeypatch.setattr(storage, "_volumes", volumes)
    assert storage.silent_seconds() == silent
    assert bool(storage.volumes().claims) is known
    assert bool(storage.volumes().volumes) is known


async def test_what_becomes_of_a_claim_wakes_the_scheduler(stage: Stage) -> None:
    woken = asyncio.Event()
    cluster = Cluster(stage.client, stage.namespace, woken.set, stage.clock, 30.0)
    controllers, running = Controllers(stage), asyncio.create_task(cluster.run())
    try:
        await until(cluster.current)
        for step in (controllers.claim("data"), controllers.bind("data", "a")):
            woken.clear()
            await step
            await asyncio.wait_for(woken.wait(), 30.0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Controllers:
    """Plays the controllers of volumes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def name(self) -> str:
        return f"pv-{self.stage.namespace}"

    async def claim(self, name: str) -> None:
        """One that has no volume yet."""
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        meta = {"name": name, "namespace": self.stage.namespace}
        await self.stage.make(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},
            "persistentvolumeclaims",
        )

    async def bind(self, name: str, zone: str) -> None:
        """Makes a volume in that zone, and the claim's own."""
        required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}
        spec = {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "",
            "hostPath": {"path": "/none"}, "nodeAffinity": {"required": required},
        }  # fmt: skip
        await self.stage.make(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.name()}, "spec": spec},
            "persistentvolumes",
        )
        await self._merge(name, {"spec": {"volumeName": self.name()}})
        await self._phase(name, "Bound")

    async def lose(self, name: str) -> None:
        """The volume goes, and the claim says so."""
        await delete(self.stage.client, VOLUMES, None, self.name(), grace_seconds=0)
        merge, path = "application/merge-patch+json", VOLUMES.path(None, self.name())
        await self.stage.client.call("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=merge)
        await self._phase(name, "Lost")

    async def _merge(self, name: str, body: dict[str, Any]) -> None:
        path, merge = CLAIMS.path(self.stage.namespace, name), "application/merge-patch+json"
        await self.stage.client.call("PATCH", path, body=body, content_type=merge)

    async def _phase(self, name: str, phase: str) -> None:
        meta = {"name": name, "namespace": self.stage.namespace}
        manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "status": {"phase": phase}}
        await apply_status(self.stage.client, CLAIMS, manifest, manager="test")


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.service()
    yield made
    await made.clear()


async def in_zone(stage: Stage, name: str, zone: str, *, slots: int = 2) -> str:
    node, merge = await stage.node(name, slots=slots), "application/merge-patch+json"
    body = {"metadata": {"labels": {ZONE: zone}}}
    await stage.client.call("PATCH", NODES.path(None, node), body=body, content_type=merge)
    return node


def mounting(claim: str) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {"spec": {"containers": [{"name": "main", "image": "none"}], "volumes": [volume]}}


def refused(words: str) -> Any:
    return lambda status: words in status.get("explanation", {}).get("message", "")


async def test_a_job_waits_for_a_node_that_its_volume_can_be_used_on(stage: Stage) -> None:
    controllers, far = Controllers(stage), await in_zone(stage, "b", "b")
    await controllers.claim("data")
    await controllers.bind("data", "a")
    async with stage.scheduler(Policy()), stage.alive(far):
        await stage.job("j", template=mounting("data"))
        words = f"volume claim data (volume {controllers.name()}) can only be used on nodes with {ZONE} In (a): "
        waiting = await stage.await_job("j", refused(f"{far}/cpu0: {words}the node has {ZONE}=b"))
        assert condition(waiting["status"], "Placed")["reason"] == "Waiting"
        near = await in_zone(stage, "a", "a")
        await stage.await_job("j", lambda status: status.get("assignment", {}).get("node") == near)


async def test_what_becomes_of_a_claim_is_noticed(stage: Stage) -> None:
    controllers, far = Controllers(stage), await in_zone(stage, "b", "b", slots=1)
    await controllers.claim("data")
    async with stage.scheduler(Policy()), stage.alive(far):
        await stage.job("first", template=mounting("data"))
        await stage.await_job("first", lambda status: status.get("assignment", {}).get("node") == far)
        await stage.job("second", template=mounting("data"))
        await stage.await_job("second", refused("no free harvest slot"))
        await controllers.bind("data", "a")
        waiting = await stage.await_job("second", refused("can only be used on nodes with"))
        # What comes later ends no assignment.
        assert (await stage.get_job("first"))["status"]["assignment"]["node"] == far
        assert condition(waiting["status"], "Placed")["status"] == "False"
        await controllers.lose("data")
        await stage.job("third", template=mounting("data"))
        await stage.await_job("third", refused("has lost its volume, which is gone"))
        await delete(stage.client, CLAIMS, stage.namespace, "data", grace_seconds=0)
        await stage.job("fourth", template=mounting("data"))
        await stage.await_job("fourth", refused("is being deleted"))


async def let(stage: Stage, user: str, *resources: str) -> None:
    """The user may do what a scheduler does, with these resources of the core group."""
    name, group = f"{user}-{stage.namespace}", "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["rowen.dev"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": list(resources), "verbs": ["*"]},
    ]
    subjects = [{"apiGroup": group, "kind": "User", "name": user}]
    described: dict[str, Any] = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    await stage.make({**described, "kind": "ClusterRole", "rules": rules}, "clusterroles")
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    binding = {**described, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    await stage.make(binding, "clusterrolebindings")


async def test_without_the_right_to_read_volumes_they_limit_nothing(stage: Stage, api_server: ApiServer) -> None:
    controllers, far, read = Controllers(stage), await in_zone(stage, "b", "b"), ("nodes", "pods", "configmaps")
    await controllers.claim("data")
    await controllers.bind("data", "a")
    await let(stage, "reader", *read, "persistentvolumeclaims")
    async with await api_server.open(api_server.kubeconfig_for("reader")) as client:
        reader = Stage(client, stage.namespace, stage.clock, stage.agents)
        async with reader.scheduler(Policy()) as loop, stage.alive(far):
            await stage.job("j", template=mounting("data"))
            await stage.await_job("j", lambda status: status.get("assignment", {}).get("node") == far)
            await let(stage, "reader", *read, "persistentvolumeclaims", "persistentvolumes")
            await until(lambda: bool((snapshot := loop.snapshot()) and snapshot.volumes.volumes))
            await stage.job("k", template=mounting("data"))
            await stage.await_job("k", refused("can only be used on nodes with"))
