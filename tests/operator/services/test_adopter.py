"""An adopted workload's pods are labelled, each once."""

from collections.abc import Mapping
from typing import Any

import pytest
from operator_builders import GAP_SECONDS, IMAGE, NODE, NOW, SLO, START_DEADLINE_SECONDS, device, report_manifest

from rowen.operator.adopter import Adopter
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

CHAT, OTHER = (Key("OnlineService", "team", name) for name in ("chat", "other"))
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llm-5d4", "uid": "r", "controller": True}


class Pods(Cluster):
    """An API server with pods, all of one ReplicaSet, by the service that their label names."""

    def __init__(self, **pods: str | None) -> None:
        self.pods = pods
        self.asked: list[str] = []
        self.labelled: list[tuple[str, str]] = []

    async def read(self, key: Key) -> dict[str, Any] | None:
        self.asked.append(key.name)
        labels = {"pod-template-hash": "5d4", "rowen.dev/service": self.pods[key.name]}
        labels = {name: value for name, value in labels.items() if value is not None}
        return {"metadata": {"name": key.name, "namespace": "team", "labels": labels, "ownerReferences": [OWNER]}}

    async def label_pod(self, pod: Mapping[str, Any], service: str) -> None:
        self.labelled.append((pod["metadata"]["name"], service))


def world(*pods: str) -> World:
    """With two services of which one has adopted a Deployment, and a node whose engines are in these pods."""
    store = Store(groups, lambda: NOW)
    reference = {"kind": "Deployment", "name": "llm"}
    for key, spec in ((CHAT, {"slo": SLO, "workloadRef": reference}), (OTHER, {"slo": SLO})):
        metadata = {"name": key.name, "namespace": key.namespace, "uid": key.name, "resourceVersion": "1"}
        store.put(key.kind, {"metadata": metadata, "spec": spec})
    metadata = {"name": "llm", "namespace": "team", "uid": "d", "resourceVersion": "1"}
    store.put("Deployment", {"kind": "Deployment", "metadata": metadata})
    reported = [{"attached": False, "pod": f"team/{pod}"} for pod in pods]
    devices = [device(f"cpu{number}", online=each) for number, each in enumerate(reported)]
    report = report_manifest(*devices, node=NODE, time=NOW)
    store.put("NodeHarvest", {**report, "metadata": {"name": NODE, "uid": "n", "resourceVersion": "1"}})
    return World(store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: NOW)


@pytest.mark.parametrize(
    ("label", "labelled"),
    [
        (None, [("llm-5d4-a", "chat")]),
        # Of a service that is gone.
        ("gone", [("llm-5d4-a", "chat")]),
        # Its node has not reported it since.
        ("chat", []),
        ("other", []),
    ],
)
async def test_a_pod_that_has_the_label_of_a_service_keeps_it(
    label: str | None, labelled: list[tuple[str, str]]
) -> None:
    cluster = Pods(**{"llm-5d4-a": label})
    await Adopter(world("llm-5d4-a"), cluster).adopt(CHAT, NOW)
    assert cluster.labelled == labelled


async def test_a_pod_on_several_devices_is_asked_for_once() -> None:
    cluster = Pods(**{"llm-5d4-a": None})
    await Adopter(world("llm-5d4-a", "llm-5d4-a"), cluster).adopt(CHAT, NOW)
    assert cluster.asked == ["llm-5d4-a"]


async def test_only_pods_that_may_be_the_workloads_are_asked_for() -> None:
    cluster = Pods(**{"llm-5d4-a": None})
    await Adopter(world("llm-5d4-a", "llm-b-5d4-a", "other-5d4-a"), cluster).adopt(CHAT, NOW)
    assert cluster.asked == ["llm-5d4-a"]


def test_a_node_concerns_those_who_adopt_in_the_namespaces_of_its_engines() -> None:
    found = world("llm-5d4-a")
    (report,) = found._store.all("NodeHarvest")
    assert set(found.concerned("NodeHarvest", report)) == {CHAT}
