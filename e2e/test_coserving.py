"""Jobs that are computed inside the engine that serves their model."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from kit import batch, manifests, riding, volumes
from kit.kubectl import apply, condition, delete, get, items, kubectl, wait_condition, wait_until
from kit.traffic import Background
from kit.world import World

NAMESPACE, SERVICE = "rowen-e2e", "riding"
JOB_SECONDS = 420
DIALOGUES = [
    {"prompt": f"question {number % 4}", "completion": f"the answer to {number % 4} is blue"} for number in range(32)
]
CHECKPOINT_STEPS = 20
LONG_EPOCHS = 400
"""Some thousands of steps, so that much can happen meanwhile."""
ROWS = batch.requests(40, max_tokens=24)


@pytest.fixture(scope="module")
def starting(workspace: object) -> Iterator[None]:
    """The service, whose engine may not be ready yet."""
    riding.make_model(NAMESPACE)
    volumes.write(NAMESPACE, "data/ride.jsonl", "\n".join(map(json.dumps, DIALOGUES)) + "\n")
    riding.start_service(SERVICE, NAMESPACE)
    yield
    delete("osvc", SERVICE, NAMESPACE)


@pytest.fixture(scope="module")
def service(starting: None) -> str:
    """Its address, once jobs may ride."""
    riding.wait_service(SERVICE, NAMESPACE)
    return f"http://{(get('service', SERVICE, NAMESPACE) or {})['spec']['clusterIP']}:8000"


def _tuning(name: str, **fields: Any) -> dict[str, Any]:
    made = {"epochs": 4, "learningRate": 0.01, "checkpointSteps": CHECKPOINT_STEPS, **fields}
    return manifests.fine_tune(name, NAMESPACE, riding.MODEL, "ride.jsonl", f"out/{name}", **made)


def _there(job: dict[str, Any]) -> dict[str, Any]:
    """The job on the node of the engine that serves its model: elsewhere it may be faster behind a gate."""
    (engine,) = riding.engine_pods(SERVICE, NAMESPACE)
    job["spec"]["podTemplate"] = {"spec": {"nodeSelector": {"kubernetes.io/hostname": engine["spec"]["nodeName"]}}}
    return job


@contextmanager
def _applied(*jobs: dict[str, Any]) -> Iterator[None]:
    """Applies jobs, and deletes them at the end."""
    try:
        apply(*jobs)
        yield
    finally:
        for job in jobs:
            delete("ojob", job["metadata"]["name"], NAMESPACE)


def _completed(world: World, name: str) -> dict[str, Any]:
    finished = wait_condition("ojob", name, world.namespace, "Finished", timeout_seconds=JOB_SECONDS)
    status = dict((get("ojob", name, world.namespace) or {})["status"])
    assert finished["reason"] == "Completed", status
    return status


def _progress(world: World, name: str) -> int:
    status = (get("ojob", name, world.namespace) or {}).get("status", {})
    return int((status.get("progress") or {}).get("completed", 0))


def _wait_riding(world: World, name: str, steps: int = 1) -> None:
    assert riding.wait_placed(name, world.namespace).get("mode") == "CoServe", get("ojob", name, world.namespace)
    wait_until(lambda: _progress(world, name) >= steps, f"{name} has done {steps} steps", JOB_SECONDS)


def _loss_fell(world: World, name: str) -> None:
    metrics = json.loads(volumes.read(world.namespace, f"models/out/{name}/metrics.json"))
    assert metrics["adapter_loss"] < metrics["base_loss"], metrics


def test_a_job_that_is_applied_while_its_engine_starts_waits_and_rides(starting: None) -> None:
    assert condition(get("osvc", SERVICE, NAMESPACE), "Ready").get("status") != "True"
    with _applied(_there(_tuning("early", epochs=LONG_EPOCHS))):
        assert riding.wait_placed("early", NAMESPACE, 500)["mode"] == "CoServe"


def test_a_job_rides_while_requests_are_answered_and_its_adapter_loads(service: str, world: World) -> None:
    with Background(service, SERVICE) as traffic, _applied(_there(_tuning("rider"))):
        assert riding.wait_placed("rider", world.namespace)["mode"] == "CoServe"
        status = _completed(world, "rider")
        assert status["progress"]["completed"] == status["progress"]["total"] > 0
        assert status.get("failures", 0) == 0
        _loss_fell(world, "rider")
        assert riding.learned(world.namespace, "out/rider") > 0
    assert traffic.answers
    assert traffic.errors == []
    assert riding.wait_seats(SERVICE).co_serving.ended is None


def test_a_job_that_cannot_ride_says_why_and_stands_behind_another_devices_gate(service: str, world: World) -> None:
    lora = {"rank": 4, "targetModules": ["q_proj", "v_proj"], "dropout": 0.1}
    jobs = _there(_tuning("aboard", epochs=LONG_EPOCHS)), _tuning("ashore", lora=lora)
    with _applied(jobs[0]):
        _wait_riding(world, "aboard")
        with _applied(jobs[1]):
            placed = riding.wait_placed("ashore", world.namespace)
            there = riding.assignment("aboard", world.namespace)
            assert placed.get("mode") is None
            assert (placed["node"], placed["devices"]) != (there["node"], there["devices"])
            told = json.dumps((get("ojob", "ashore", world.namespace) or {})["status"]["explanation"])
            assert "lora.dropout above 0" in told
            _completed(world, "ashore")
            _loss_fell(world, "ashore")


def test_a_job_that_is_suspended_frees_its_seat_and_goes_on_later(service: str, world: World) -> None:
    with _applied(_there(_tuning("pausing", epochs=LONG_EPOCHS))):
        _wait_riding(world, "pausing", steps=200)
        _suspend(world, "pausing", True)
        wait_until(lambda: not items("pods", world.namespace, "rowen.dev/job=pausing"), "its pod is gone", 180)
        wait_until(lambda: not riding.riders(SERVICE), "its seat is free", 60)
        _suspend(world, "pausing", False)
        assert wait_until(lambda: _resumed_at("pausing"), "it goes on", JOB_SECONDS) >= 200 - CHECKPOINT_STEPS
    wait_until(lambda: not riding.riders(SERVICE), "the seat of a job that was deleted is free", 60)


def _resumed_at(job: str) -> int:
    """The step from which the pod of its newest attempt goes on; 0: it has not said so yet."""
    pods = items("pods", NAMESPACE, f"rowen.dev/job={job}")
    if len(pods) != 1 or pods[0]["status"]["phase"] == "Pending":
        return 0
    lines = kubectl("logs", "-n", NAMESPACE, pods[0]["metadata"]["name"]).splitlines()
    said = [json.loads(line) for line in lines if '"resumed"' in line]
    return int(said[-1]["step"]) if said else 0


def _suspend(world: World, name: str, suspend: bool) -> None:
    patch = json.dumps({"spec": {"suspend": suspend}})
    kubectl("patch", "ojob", name, "-n", world.namespace, "--type=merge", "-p", patch)


def test_a_job_goes_on_when_its_engine_was_killed(service: str, world: World) -> None:
    with _applied(_there(_tuning("orphan", epochs=100))):
        _wait_riding(world, "orphan")
        (engine,) = riding.engine_pods(SERVICE, world.namespace)
        delete("pod", engine["metadata"]["name"], world.namespace, "--force", "--grace-period=0")
        status = _completed(world, "orphan")
        assert status.get("failures", 0) == 0
        _loss_fell(world, "orphan")
    wait_condition("osvc", SERVICE, world.namespace, "Ready", timeout_seconds=400)
    riding.wait_seats(SERVICE)


def test_a_rider_that_is_killed_takes_nothing_along(service: str, world: World) -> None:
    (engine,) = _containers()
    with Background(service, SERVICE) as traffic, _applied(_there(_tuning("victim", epochs=LONG_EPOCHS))):
        _wait_riding(world, "victim", steps=2 * CHECKPOINT_STEPS)
        (worker,) = items("pods", world.namespace, "rowen.dev/job=victim")
        delete("pod", worker["metadata"]["name"], world.namespace, "--force", "--grace-period=0")
        assert wait_until(lambda: _resumed_at("victim"), "its next attempt goes on", JOB_SECONDS) >= CHECKPOINT_STEPS
        _wait_riding(world, "victim")
    assert traffic.answers
    assert traffic.errors == []
    assert _containers() == [engine]
    assert riding.wait_seats(SERVICE).co_serving.ended is None


def _containers() -> list[str]:
    """Ids of the engine's containers, each started anew has another one."""
    pods = riding.engine_pods(SERVICE, NAMESPACE)
    return [each["containerID"] for pod in pods for each in pod["status"]["containerStatuses"]]


def test_a_batch_on_the_served_model_rides_as_requests_of_its_engine(service: str, world: World) -> None:
    batch.write(world.namespace, "ride-rows.jsonl", ROWS)
    job = manifests.batch("rows", world.namespace, riding.MODEL, "ride-rows.jsonl", "ride-results.jsonl")
    job["spec"]["batchInference"]["args"] = [riding.DTYPE]
    with _applied(_there(job)):
        assert riding.wait_placed("rows", world.namespace)["mode"] == "CoServe"
        answer = httpx.post(
            f"{service}/v1/completions",
            json={"model": SERVICE, "prompt": "how do I return an order", "max_tokens": 8},
            timeout=60,
            trust_env=False,
        )
        assert answer.is_success
        _completed(world, "rows")
        batch.check_answered_once(world.namespace, "ride-results.jsonl", ROWS)
    assert condition(get("osvc", SERVICE, world.namespace), "Ready")["status"] == "True"
