"""The demo's path, shorter: a service under traffic, a tuning job and a batch job in its gaps."""

import json

from kit import batch, manifests, pool, volumes
from kit.kubectl import apply, delete, get, kubectl, wait_condition
from kit.traffic import Background
from kit.world import World

DIALOGUES = [
    {"prompt": f"question {number % 4}", "completion": f"the answer to {number % 4} is blue"} for number in range(32)
]
REQUESTS = [
    {
        "custom_id": f"row-{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": f"question {number}"}], "max_tokens": 8},
    }
    for number in range(24)
]


def test_both_jobs_finish_in_the_gaps_of_a_service_that_keeps_answering(world: World) -> None:
    namespace = world.namespace
    volumes.write(namespace, "data/dialogues.jsonl", "\n".join(map(json.dumps, DIALOGUES)) + "\n")
    batch.write(namespace, "requests-main.jsonl", REQUESTS)
    tuning = manifests.fine_tune("tuning", namespace, world.model, "dialogues.jsonl", "out/tuning", epochs=2)
    answering = manifests.batch("batch", namespace, world.model, "requests-main.jsonl", "results-main.jsonl")
    try:
        with Background(world.url, world.service) as traffic:
            apply(tuning, answering)
            for job in ("tuning", "batch"):
                finished = wait_condition("ojob", job, namespace, "Finished", timeout_seconds=420)
                assert finished["reason"] == "Completed"
        assert traffic.errors == []
        service = (get("osvc", world.service, namespace) or {})["status"]
        assert service["readyReplicas"] == 1
        assert service["harvested"].endswith("%")
        _adapter_is_better(namespace)
        batch.check_answered_once(namespace, "results-main.jsonl", REQUESTS)
        _stopped_but_never_twice_a_request()
        _status_says_how_it_went(namespace)
    finally:
        for job in ("tuning", "batch"):
            delete("ojob", job, namespace)


def _adapter_is_better(namespace: str) -> None:
    metrics = json.loads(volumes.read(namespace, "models/out/tuning/metrics.json"))
    losses = {key: value for key, value in metrics.items() if "loss" in key}
    assert volumes.exists(namespace, "models/out/tuning/adapter_model.safetensors")
    assert metrics["adapter_loss"] < metrics["base_loss"], losses


def _stopped_but_never_twice_a_request() -> None:
    reports = json.loads(kubectl("get", "nodeharvest", "-o", "json"))["items"]
    devices = [device for report in reports for device in report["status"]["devices"] if device["harvestable"]]
    assert sum(device["preemptions"] for device in devices) > 0
    assert max(device.per_request_max for device in pool.details()) <= 1


def _status_says_how_it_went(namespace: str) -> None:
    for job in ("tuning", "batch"):
        status = (get("ojob", job, namespace) or {})["status"]
        assert status["state"] == "Completed"
        assert status["progress"]["completed"] == status["progress"]["total"] > 0
        assert status["result"]
