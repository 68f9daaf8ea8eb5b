"""Where the engine answers in which a batch rides."""

from typing import Any

import pytest
from operator_builders import (
    BATCH,
    FINE_TUNE,
    GAP_SECONDS,
    IMAGE,
    NAMESPACE,
    NODE,
    NOW,
    SLO,
    START_DEADLINE_SECONDS,
    assignment,
    device,
    job_manifest,
    online,
    placed,
    report_manifest,
    tenant,
)

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.crds.service.online_service import Engine
from rowen.crds.service.served import served_digest
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

JOB = Key("OfflineJob", NAMESPACE, "job")
SERVED = {"model": {"claimName": "models", "path": "./llama"}}


def pod(name: str = "chat-abc", *, address: str = "10.0.0.7", engine: Any = None, **parts: Any) -> dict[str, Any]:
    """An engine's pod, made for what the service says unless for another `engine`."""
    annotations = {"rowen.dev/served": served_digest(Engine.from_wire(engine or SERVED))}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"rowen.dev/service": "chat"}}
    return {
        "metadata": {**metadata, "annotations": annotations, **parts.get("metadata", {})},
        "spec": {"nodeName": parts.get("node", NODE), "containers": [{"name": "engine"}]},
        "status": {"podIP": address, "phase": parts.get("phase", "Running")},
    }


class Place:
    """A batch with a seat in the engine of device cpu1, and what the operator knows of that one."""

    def __init__(self, *, mode: str | None = "CoServe", spec: Any = None) -> None:
        self.now, self._version = NOW, 0
        self.store = Store(groups, lambda: self.now)
        self.world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: self.now)
        held = placed(assignment={**assignment(), **({"mode": mode} if mode else {})})
        self.put("OfflineJob", job_manifest({"batchInference": BATCH} if spec is None else spec, held))
        self.service()
        self.report("chat-abc")

    def put(self, kind: str, manifest: dict[str, Any]) -> None:
        self._version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self._version)}
        self.store.put(kind, {**manifest, "metadata": metadata})

    def service(self, harvest: Any = None, slo: Any = None, **engine: Any) -> None:
        spec = {"slo": slo or SLO, "engine": SERVED | engine, "harvest": harvest or {"mode": "CoServe"}}
        self.put("OnlineService", {"metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"}, "spec": spec})

    def report(self, engine: str, namespace: str = NAMESPACE) -> list[Key]:
        """The node names that pod on the device. Returns whom that concerns."""
        there = device("cpu1", online=online(pod=f"{namespace}/{engine}"), tenants=[tenant(mode="CoServe")])
        told = report_manifest(device("cpu0", online=online("other")), there, time=self.now)
        self.put("NodeHarvest", told)
        return list(self.world.concerned("NodeHarvest", told))

    def engine(self) -> EngineAddress | None:
        job = self.world.job(JOB, self.now)
        assert job is not None
        return job.engine


@pytest.mark.parametrize(
    ("address", "url"), [("10.0.0.7", "http://10.0.0.7:8000"), ("fd00::7", "http://[fd00::7]:8000"), ("", None)]
)
def test_an_engine_answers_at_its_pods_address(address: str, url: str | None) -> None:
    place = Place()
    assert place.engine() is None, "its pod is not known"
    place.put("Pod", pod(address=address, node="elsewhere"))
    assert place.engine() is None, "its pod is on another node"
    place.put("Pod", pod(address=address, phase="Failed"))
    assert place.engine() is None, "its pod has ended"
    place.put("Pod", pod(address=address, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert place.engine() is None, "its pod is being deleted"
    place.put("Pod", pod(address=address))
    assert place.engine() == (EngineAddress(url, "chat-abc") if url else None)
    place.now += NODE_LEASE_SECONDS + 1
    assert place.engine() is None, "the node is silent"


def test_an_engine_of_another_namespace_is_not_told() -> None:
    """Whatever has the device since the job was placed."""
    place = Place()
    place.put("Pod", pod(metadata={"namespace": "others"}))
    place.report("chat-abc", "others")
    assert place.engine() is None


@pytest.mark.parametrize("said", [{"mode": None}, {"spec": {"fineTune": FINE_TUNE}}])
def test_only_a_batch_that_rides_is_told(said: dict[str, Any]) -> None:
    place = Place(**said)
    place.put("Pod", pod())
    assert place.engine() is None


@pytest.mark.parametrize("now", [
    {"model": {"claimName": "models", "path": "other"}}, {"args": ["--dtype=half"]}, {"args": ["--api-key=x"]},
    {"harvest": {"mode": "Preempt"}}, {"slo": {**SLO, "tpot": {"target": "0s"}}},
])  # fmt: skip
def test_nobody_asks_an_engine_that_answers_otherwise(now: dict[str, Any]) -> None:
    """As where the scheduler, which takes the seat away then, is not there."""
    place = Place()
    place.service(**now)
    place.put("Pod", pod(engine=SERVED | {key: now[key] for key in ("model", "args") if key in now}))
    assert place.engine() is None
    # The service says it, and its pod is one of before.
    place.put("Pod", pod())
    assert place.engine() is None
    place.service()
    assert place.engine() is not None


def test_a_service_that_is_gone_or_not_understood_has_no_engine() -> None:
    place = Place()
    place.put("Pod", pod())
    place.put("OnlineService", {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"}, "spec": {"engine": SERVED}
    })  # fmt: skip
    assert place.engine() is None
    place.put("Pod", pod(metadata={"labels": {"rowen.dev/service": "gone"}}))
    assert place.engine() is None


def test_the_next_engine_is_told_as_soon_as_its_node_names_it_and_its_job_is_woken() -> None:
    place = Place()
    place.put("Pod", pod())
    place.put("Pod", pod("chat-xyz", address="10.0.0.8"))
    assert place.engine() == EngineAddress("http://10.0.0.7:8000", "chat-abc")
    assert JOB in place.report("chat-xyz")
    assert place.engine() == EngineAddress("http://10.0.0.8:8000", "chat-xyz")
