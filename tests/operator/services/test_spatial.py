"""An engine that shares its device while it serves: what it is told, and what its service says."""

from typing import Any

import pytest
from operator_builders import IMAGE, NAMESPACE, device, report

from rowen.crds.ride.terms import LatencyBound, SpatialTerms
from rowen.operator.services.conditions import harvest_enabled
from rowen.operator.services.guard import Guard
from rowen.operator.services.manifests import deployment
from rowen.operator.services.snapshot import ServiceSnapshot, service_snapshot

SLO = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms", "percentile": 95}}
DEPLOYMENT = {"metadata": {"name": "chat", "uid": "d1"}, "spec": {"replicas": 1, "template": {"spec": {}}}}


def snapshot(harvest: dict[str, Any], slo: dict[str, Any] | None = None, **fields: Any) -> ServiceSnapshot:
    engine = {"model": {"claimName": "models", "path": "llama"}, "memory": "4Gi", **fields}
    return service_snapshot(
        {
            "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"},
            "spec": {"slo": slo or SLO, "engine": engine, "harvest": harvest},
        },
        workload=DEPLOYMENT, cluster_service=None, pods=(),
        devices=report(device("cpu0")).devices, runtime_image=IMAGE,
    )  # fmt: skip


def pod(harvest: dict[str, Any], slo: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The engine's pod template."""
    found = snapshot(harvest, slo, **fields)
    assert found.spec.engine is not None
    template: dict[str, Any] = deployment(found, found.spec.engine)["spec"]["template"]
    return template


def terms(template: dict[str, Any]) -> SpatialTerms | None:
    env = template["spec"]["containers"][0]["env"]
    texts = [entry["value"] for entry in env if entry["name"] == "ROWEN_SPATIAL_TERMS"]
    return SpatialTerms.model_validate_json(texts[0]) if texts else None


def test_the_objective_is_what_the_share_keeps_to() -> None:
    assert terms(pod({"mode": "Spatial"})) == SpatialTerms(
        ttft=LatencyBound(percentile=99, seconds=0.5), tpot=LatencyBound(percentile=95, seconds=0.05)
    )
    assert terms(pod({"mode": "Preempt"})) is None
    assert terms(pod({"mode": "CoServe"})) is None


def test_a_new_objective_starts_it_anew_and_switching_off_does_not() -> None:
    now = pod({"mode": "Spatial"})
    assert now != pod({"mode": "Spatial"}, {**SLO, "tpot": {"target": "60ms"}})
    assert now != pod({})
    assert now == pod({"mode": "Spatial", "enabled": False})


def test_nobody_rides_in_it() -> None:
    """No memory for riders, and nothing that says what it serves."""
    shares, plain = pod({"mode": "Spatial", "coServe": {"memory": "8Gi"}}), pod({})
    assert shares["metadata"] == plain["metadata"]
    (engine,), (other,) = shares["spec"]["containers"], plain["spec"]["containers"]
    assert engine["resources"] == other["resources"]
    assert "ROWEN_RIDE_TERMS" not in {entry["name"] for entry in engine["env"]}


@pytest.mark.parametrize("latency", ["ttft", "tpot"])
def test_without_time_nothing_runs_beside_requests(latency: str) -> None:
    """As of a service that was stored before the API server refused it."""
    slo = {**SLO, latency: {"target": "0s"}}
    assert pod({"mode": "Spatial"}, slo) == pod({}, slo)
    said = harvest_enabled(snapshot({"mode": "Spatial"}, slo), Guard())
    assert said.message.endswith(f"; nothing runs beside its requests: slo.{latency}.target is 0")
    assert "beside" not in harvest_enabled(snapshot({"mode": "Spatial"}), Guard()).message
