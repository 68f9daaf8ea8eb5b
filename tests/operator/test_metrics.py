"""What the operator publishes of services."""

from collections.abc import Callable
from typing import Any

from operator_beats import NoBeats
from operator_builders import condition
from prometheus_client import CollectorRegistry

from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer
from rowen.kube.listing import Listing
from rowen.kube.resource import Resource
from rowen.operator.app import Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.resources import JOBS, SERVICES


def test_a_service_that_is_gone_has_no_level() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)

    def level(service: str) -> float | None:
        labels = {"namespace": "team", "service": service}
        return registry.get_sample_value("rowen_harvest_guard_level", labels)

    metrics.guard_levels({("team", "a"): "Stopped", ("team", "b"): "Reduced", ("team", "c"): "Full"})
    assert [level(name) for name in "abc"] == [2.0, 1.0, 0.0]
    metrics.guard_levels({("team", "a"): "Full"})
    assert [level(name) for name in "abc"] == [0.0, None, None]
    metrics.guard_levels({})
    assert level("a") is None


class Objects(Cluster):
    """A cluster of services and jobs alone, by name."""

    def __init__(self) -> None:
        self.harvests: dict[str, dict[str, Any]] = {}
        self.statuses: dict[str, dict[str, Any]] = {}
        """Of the jobs."""
        self.version = 1

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        return NoBeats()

    async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
        parts: dict[str, Any] = {}
        if resource is SERVICES:
            parts = {name: {"spec": {"harvest": harvest}} for name, harvest in self.harvests.items()}
        if resource is JOBS:
            parts = {name: {"spec": {}, "status": status} for name, status in self.statuses.items()}
        return Listing(tuple(kept(self._object(name) | part) for name, part in parts.items()), self.version)

    def _object(self, name: str) -> dict[str, Any]:
        return {"metadata": {"namespace": "team", "name": name, "uid": name, "resourceVersion": str(self.version)}}


async def test_each_service_is_published_in_its_mode() -> None:
    registry, cluster = CollectorRegistry(), Objects()
    operator = Operator(Settings(runtime_image="i"), cluster, Metrics(registry), lambda: 1000.0)

    def mode(service: str) -> list[str]:
        samples = next(family.samples for family in registry.collect() if family.name == "rowen_service_info")
        return [sample.labels["mode"] for sample in samples if sample.labels["service"] == service]

    cluster.harvests = {"a": {"mode": "CoServe"}, "b": {}}
    await operator.resync()
    assert (mode("a"), mode("b")) == (["CoServe"], ["Preempt"])
    assert registry.get_sample_value("rowen_harvest_guard_level", {"namespace": "team", "service": "b"}) == 0
    cluster.harvests, cluster.version = {"b": {"mode": "Spatial"}}, 2
    await operator.resync()
    assert (mode("a"), mode("b")) == ([], ["Spatial"])


async def test_jobs_with_a_place_are_counted_by_mode_and_state() -> None:
    registry, cluster = CollectorRegistry(), Objects()
    operator = Operator(Settings(runtime_image="i"), cluster, Metrics(registry), lambda: 1000.0)

    def status(state: str, mode: str | None = None, *, placed: bool = True) -> dict[str, Any]:
        held = {"id": "a1", **({"mode": mode} if mode else {})}
        said = {"conditions": [condition("Placed", "True" if placed else "False")], "state": state}
        return {**said, "assignment": held} if placed else said

    def counted() -> dict[tuple[str, str], float]:
        samples = next(family.samples for family in registry.collect() if family.name == "rowen_placed_jobs")
        return {(sample.labels["mode"], sample.labels["state"]): sample.value for sample in samples}

    cluster.statuses = {
        "a": status("Running", "CoServe"), "b": status("Running", "CoServe"), "c": status("Starting", "CoServe"),
        "d": status("Running", "Spatial"), "e": status("Running"), "f": status("Succeeded", placed=False), "g": {},
    }  # fmt: skip
    await operator.resync()
    assert counted() == {
        ("CoServe", "Running"): 2, ("CoServe", "Starting"): 1, ("Spatial", "Running"): 1, ("Preempt", "Running"): 1
    }  # fmt: skip
    cluster.statuses, cluster.version = {"d": status("Preempted", "Spatial")}, 2
    await operator.resync()
    assert counted() == {("Spatial", "Preempted"): 1}
