"""An engine in which jobs ride: what it is told, and what memory it has."""

import json
from typing import Any

import pytest
from operator_builders import IMAGE, NAMESPACE, device, report

from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.operator.services.co_serving import riding_told
from rowen.operator.services.manifests import deployment
from rowen.operator.services.snapshot import service_snapshot

MODEL = {"claimName": "models", "path": "llama"}
SLO = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms", "percentile": 95}}
MIB = 2**20


def pod(harvest: dict[str, Any], slo: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The engine's pod template."""
    spec = {"slo": slo or SLO, "engine": {"model": MODEL, "memory": "4Gi", **fields}, "harvest": harvest}
    metadata = {"name": "chat", "namespace": NAMESPACE, "uid": "s1"}
    snapshot = service_snapshot(
        {"metadata": metadata, "spec": spec}, workload=None, cluster_service=None, pods=(), devices=(),
        runtime_image=IMAGE,
    )  # fmt: skip
    assert snapshot.spec.engine is not None
    template: dict[str, Any] = deployment(snapshot, snapshot.spec.engine)["spec"]["template"]
    return template


def engine(harvest: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The engine's container."""
    container: dict[str, Any] = pod(harvest, **fields)["spec"]["containers"][0]
    return container


def served(**fields: Any) -> str:
    """What is on its pods of the model and the arguments."""
    word = pod({"mode": "CoServe"}, **fields)["metadata"]["annotations"]["rowen.dev/served"]
    assert isinstance(word, str)
    return word


def terms(container: dict[str, Any]) -> RideTerms | None:
    texts = [entry["value"] for entry in container["env"] if entry["name"] == "ROWEN_RIDE_TERMS"]
    return RideTerms.model_validate_json(texts[0]) if texts else None


def memory(container: dict[str, Any]) -> tuple[int, int]:
    """Request and limit, MiB."""
    resources = container["resources"]
    return int(resources["requests"]["memory"]) // MIB, int(resources["limits"]["memory"]) // MIB


@pytest.mark.parametrize("harvest", [{}, {"mode": "Preempt", "coServe": {"memory": "8Gi", "deferPrefills": True}}])
def test_without_riders_nothing_is_different(harvest: dict[str, Any]) -> None:
    container = engine(harvest)
    assert terms(container) is None
    assert memory(container) == (4096, 4096)
    assert container == engine({})
    assert pod(harvest) == pod({})
    assert "rowen.dev/served" not in pod(harvest)["metadata"]["annotations"]


def test_its_pods_say_what_they_serve() -> None:
    assert served() == served(memory="8Gi", model={**MODEL, "path": "./llama/"})
    others = [
        served(),
        served(model={**MODEL, "path": "llama2"}),
        served(args=["--dtype=half"]),
        served(args=["--dtype", "half"]),
        served(args=["--dtype half"]),
    ]
    assert len(set(others)) == len(others)
    assert all(word.isalnum() for word in others)


def test_a_user_does_not_say_it() -> None:
    own = {"metadata": {"annotations": {"rowen.dev/served": "mine"}}}
    assert served(podTemplate=own) == served()


def test_the_objective_is_what_riders_keep_to() -> None:
    assert terms(engine({"mode": "CoServe", "coServe": {"memory": "512Mi"}})) == RideTerms(
        ttft=LatencyBound(percentile=99, seconds=0.5),
        tpot=LatencyBound(percentile=95, seconds=0.05),
        memory_bytes=512 * MIB,
    )


def test_whether_prompts_wait_is_one_of_the_terms() -> None:
    plain, deferring = engine({"mode": "CoServe"}), engine({"mode": "CoServe", "coServe": {"deferPrefills": True}})
    assert [found.defer_prefills for found in (terms(plain), terms(deferring)) if found] == [False, True]
    # Of an engine that was made before there was the option the terms are as they were: it is not started anew.
    assert engine({"mode": "CoServe", "coServe": {"deferPrefills": False}}) == plain
    (text,) = [entry["value"] for entry in plain["env"] if entry["name"] == "ROWEN_RIDE_TERMS"]
    assert set(json.loads(text)) == {"ttft", "tpot", "memoryBytes"}
    # And a change of it does start the engine anew.
    assert pod({"mode": "CoServe", "coServe": {"deferPrefills": True}}) != pod({"mode": "CoServe"})


@pytest.mark.parametrize(("mode", "told"), [("CoServe", True), ("Preempt", False), ("Spatial", False)])
def test_it_knows_its_pods_name_where_batches_ask_for_it(mode: str, told: bool) -> None:
    """The others' pods stay as they are, and their engines are not started anew."""
    env = engine({"mode": mode})["env"]
    named = {"name": "ROWEN_ENGINE_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert (named in env) == told


def test_their_memory_comes_on_top() -> None:
    assert memory(engine({"mode": "CoServe"})) == (6144, 6144)
    assert memory(engine({"mode": "CoServe", "coServe": {"memory": "1Gi"}}, memoryLimit="8Gi")) == (5120, 9216)


def test_its_part_of_the_pool_stays() -> None:
    with_pool = engine({"mode": "CoServe"}, memoryLimit="8Gi")
    env = {entry["name"]: entry.get("value") for entry in with_pool["env"]}
    assert env["ROWEN_POOL_BYTES"] == str(4096 * MIB)


def test_it_computes_layer_by_layer_and_keeps_its_arguments() -> None:
    command = engine({"mode": "CoServe"}, args=["--enable-lora"])["command"]
    assert "--enforce-eager" in command
    assert command[-1] == "--enable-lora"


def test_that_harvesting_is_switched_off_does_not_start_it_anew() -> None:
    assert engine({"mode": "CoServe", "enabled": False}) == engine({"mode": "CoServe"})


def told(mode: str, *co_serving: dict[str, Any] | None, slo: dict[str, Any] | None = None) -> str:
    spec = OnlineServiceSpec.from_wire({"slo": slo or SLO, "engine": {"model": MODEL}, "harvest": {"mode": mode}})
    devices = [device(f"cpu{at}", **({"coServing": each} if each else {})) for at, each in enumerate(co_serving)]
    return riding_told(spec, report(*devices).devices)


def test_its_service_says_where_jobs_can_ride() -> None:
    seats, ended = {"seats": 8}, {"seats": 8, "ended": "out of memory"}
    assert told("CoServe", seats, None) == "; jobs can ride in 1 of 2 engines"
    assert told("CoServe", seats, ended) == (
        "; jobs can ride in 1 of 2 engines; in 1 that has ended until it is started anew: out of memory"
    )
    assert told("Preempt", seats) == ""


@pytest.mark.parametrize("latency", ["ttft", "tpot"])
def test_without_time_nobody_rides(latency: str) -> None:
    """As of a service that was stored before the API server refused it."""
    slo = {**SLO, latency: {"target": "0s"}}
    assert pod({"mode": "CoServe"}, slo) == pod({}, slo)
    assert told("CoServe", {"seats": 8}, slo=slo) == f"; no job rides in its engines: slo.{latency}.target is 0"
