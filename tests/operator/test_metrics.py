"""What the operator publishes of the SLO guard."""

from prometheus_client import CollectorRegistry

from rowen.operator.metrics import Metrics


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
