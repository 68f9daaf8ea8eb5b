"""What the operator publishes of services."""

from collections.abc import Callable
from typing import Any

from operator_beats import NoBeats
from prometheus_client import CollectorRegistry

from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer
from rowen.kube.listing import Listing
from rowen.kube.resource import Resource
from rowen.operator.app import Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.resources import SERVICES


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


class Services(Cluster):
    """A cluster of services alone, by name."""

    def __init__(self) -> None:
        self.harvests: dict[str, dict[str, Any]] = {}
        self.version = 1

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        return NoBeats()

    async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
        names = self.harvests if resource is SERVICES else ()
        return Listing(tuple(kept(self._service(name)) for name in names), self.version)

    def _service(self, name: str) -> dict[str, Any]:
        metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": str(self.version)}
        return {"metadata": metadata, "spec": {"harvest": self.harvests[name]}}


async def test_each_service_is_published_in_its_mode() -> None:
    registry, cluster = CollectorRegistry(), Services()
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
