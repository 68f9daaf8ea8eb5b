"""What is wrong with a job's input ends in a condition that says so, never in a crash loop."""

import json

import pytest
from kit import batch, manifests, volumes
from kit.kubectl import apply, condition, delete, get, items, wait_condition, wait_until
from kit.world import World

ROW = {"text": "how do I return an order: open the order page and choose return"}


def _finished(world: World, name: str) -> dict:
    return wait_condition("ojob", name, world.namespace, "Finished", timeout_seconds=240)


FAULTS = {
    "model-missing": ({"model_path": "nowhere"}, "nowhere"),
    "dataset-missing": ({"dataset": "nowhere.jsonl"}, "nowhere.jsonl"),
    "dataset-malformed": ({"dataset": "malformed.jsonl"}, "malformed.jsonl:3"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_tuning_job_with_a_fault_fails_once_and_says_where(world: World, name: str) -> None:
    rows = [json.dumps(ROW)] * 8
    volumes.write(world.namespace, "data/good.jsonl", "\n".join(rows) + "\n")
    volumes.write(world.namespace, "data/malformed.jsonl", "\n".join([*rows[:2], '{"text": ', *rows]) + "\n")
    changed, said = FAULTS[name]
    arguments = {"model_path": world.model, "dataset": "good.jsonl", "output": f"out/{name}", **changed}
    apply(manifests.fine_tune(name, world.namespace, **arguments))
    try:
        finished = _finished(world, name)
        assert finished["reason"] != "Completed"
        assert said in finished["message"]
        job = get("ojob", name, world.namespace)
        assert job is not None
        assert job["status"]["attempts"] == 1
    finally:
        delete("ojob", name, world.namespace)


def test_a_claim_that_is_not_there_is_named(world: World) -> None:
    manifest = manifests.fine_tune("claimless", world.namespace, world.model, "good.jsonl", "out/claimless")
    manifest["spec"]["fineTune"]["dataset"]["claimName"] = "no-such-claim"
    apply(manifest)
    try:
        running = wait_until(
            lambda: (
                found
                if "no-such-claim"
                in (found := condition(get("ojob", "claimless", world.namespace), "Running")).get("message", "")
                else None
            ),
            "condition Running names the claim",
            120,
        )
        assert running["status"] == "False"
        assert len(items("pods", world.namespace, "rowen.dev/job=claimless")) == 1
    finally:
        delete("ojob", "claimless", world.namespace)


def test_a_malformed_row_is_reported_by_line_and_the_rest_is_done(world: World) -> None:
    rows = [json.dumps(row) for row in batch.requests(6, max_tokens=4)]
    rows.insert(2, '{"custom_id": "broken", ')
    volumes.write(world.namespace, "data/partly.jsonl", "\n".join(rows) + "\n")
    apply(manifests.batch("partly", world.namespace, world.model, "partly.jsonl", "partly-results.jsonl"))
    try:
        assert _finished(world, "partly")["reason"] == "Completed"
        results = batch.results(world.namespace, "partly-results.jsonl")
        answered = [entry["custom_id"] for entry in results if entry.get("error") is None]
        refused = [entry for entry in results if entry.get("error") is not None]
        assert sorted(answered) == [f"row-{number}" for number in range(6)]
        assert len(refused) == 1
        assert "3" in refused[0]["error"]["message"]
    finally:
        delete("ojob", "partly", world.namespace)


def test_a_full_disk_is_named(world: World, small_claim: str) -> None:
    batch.write(world.namespace, "few.jsonl", batch.requests(4, max_tokens=4))
    manifest = manifests.batch("full", world.namespace, world.model, "few.jsonl", "results.jsonl", backoffLimit=0)
    manifest["spec"]["batchInference"]["output"] = {"claimName": small_claim, "path": "results.jsonl"}
    apply(manifest)
    try:
        finished = _finished(world, "full")
        assert finished["reason"] != "Completed"
        assert "DiskFull" in finished["reason"] + finished["message"]
    finally:
        delete("ojob", "full", world.namespace)
