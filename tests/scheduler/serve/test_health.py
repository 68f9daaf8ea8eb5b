"""Health and metrics, on their own port."""

from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, Counter

from rowen.scheduler.serve.health import create_health_app


class Living:
    turning = True

    def alive(self) -> bool:
        return self.turning


def test_health_follows_the_loop() -> None:
    living = Living()
    found = TestClient(create_health_app(living, CollectorRegistry()))
    assert found.get("/healthz").status_code == 200
    living.turning = False
    assert found.get("/healthz").status_code == 503


def test_metrics_are_served() -> None:
    registry = CollectorRegistry()
    Counter("rowen_things", "Things.", registry=registry).inc()
    assert "rowen_things_total 1.0" in TestClient(create_health_app(Living(), registry)).get("/metrics").text


def test_there_is_nothing_else() -> None:
    found = TestClient(create_health_app(Living(), CollectorRegistry()))
    for path in ("/v1/explain/a/j", "/openapi.json", "/docs"):
        assert found.get(path).status_code == 404
