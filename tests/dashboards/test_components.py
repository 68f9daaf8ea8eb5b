"""The stand-in exporter says what the components say: same names, same types, same labels."""

import pytest
from exporter import HEALTHY
from exporter import Metrics as StandIn
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

Shape = tuple[str, frozenset[str]]


def _shapes(registry: CollectorRegistry) -> dict[str, Shape]:
    collectors = registry._collector_to_names
    return {
        collector._name: (str(collector._type), frozenset(collector._labelnames))
        for collector in collectors
        if isinstance(collector, MetricWrapperBase)
    }


STAND_IN = _shapes(StandIn(HEALTHY).registry)


def test_scheduler() -> None:
    metrics = pytest.importorskip("rowen.scheduler.serve.metrics")
    shapes = _shapes(metrics.Metrics().registry)
    assert shapes == {name: STAND_IN.get(name) for name in shapes}


def test_agent() -> None:
    metrics = pytest.importorskip("rowen.node_agent.report.metrics")
    shapes = _shapes(metrics.Metrics("node-1").registry)
    assert shapes == {name: STAND_IN.get(name) for name in shapes}
