"""The pod of an attempt."""

import json
from typing import Any

from operator_builders import BATCH, IMAGE, NODE, TEMPLATE, job, placed

from rowen.crds.worker import BatchSpec, TuningSpec, WorkerSpec
from rowen.operator.job_pod import job_pod
from rowen.operator.job_snapshot import JobSnapshot


def made(snapshot: JobSnapshot) -> dict[str, Any]:
    assert snapshot.assignment is not None
    return job_pod(snapshot, snapshot.assignment, 3)


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}


def test_a_tuning_worker_finds_its_files() -> None:
    pod = made(job(status=placed()))
    worker = WorkerSpec.validate_json(environment(pod)["ROWEN_JOB_SPEC"])
    assert isinstance(worker, TuningSpec)
    assert worker.base_model.name_or_path == "/volumes/models/llama"
    assert (worker.dataset_path, worker.output_path) == ("/volumes/data/train.jsonl", "/volumes/out/adapter")
    assert environment(pod)["ROWEN_ATTEMPT"] == "3"
    assert environment(pod)["HF_HUB_OFFLINE"] == "1"
    assert pod["spec"]["containers"][0]["command"] == ["python", "-m", "rowen.runtime.tuning"]
    assert pod["spec"]["containers"][0]["image"] == IMAGE


def test_a_batch_worker_knows_its_memory() -> None:
    pod = made(job({"batchInference": BATCH, "memory": "2Gi", "devices": 2}, placed()))
    worker = WorkerSpec.validate_json(environment(pod)["ROWEN_JOB_SPEC"])
    assert isinstance(worker, BatchSpec)
    assert worker.memory_bytes == 4 << 30
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"rowen.dev/harvest": "2", "memory": str(4 << 30)}


def test_claims_are_mounted_once_and_written_only_where_there_is_output() -> None:
    mounts = made(job({"batchInference": BATCH}, placed()))["spec"]["containers"][0]["volumeMounts"]
    assert {mount["mountPath"]: mount.get("readOnly", False) for mount in mounts} == {
        "/tmp": False,
        "/volumes/data": False,
        "/volumes/models": True,
    }


def test_a_model_from_the_hub_may_be_fetched() -> None:
    batch = {**BATCH, "model": {"huggingFace": {"repo": "org/model", "revision": "abc"}}}
    pod = made(job({"batchInference": batch}, placed()))
    assert "HF_HUB_OFFLINE" not in environment(pod)
    assert json.loads(environment(pod)["ROWEN_JOB_SPEC"])["model"] == {"nameOrPath": "org/model", "revision": "abc"}


def test_is_pinned_labelled_and_owned() -> None:
    pod = made(job(status=placed()))
    assert pod["metadata"]["name"] == "job-3"
    labels = pod["metadata"]["labels"]
    assert (labels["rowen.dev/job"], labels["rowen.dev/job-uid"], labels["rowen.dev/attempt"]) == ("job", "u1", "3")
    assert pod["metadata"]["annotations"] == {"rowen.dev/assignment": "a1", "rowen.dev/devices": "cpu1"}
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert pod["spec"]["restartPolicy"] == "Never"


def test_a_template_keeps_what_it_says() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    template = {
        "metadata": {"labels": {"mine": "yes", "rowen.dev/job": "forged"}},
        "spec": {**TEMPLATE["spec"], "affinity": {"nodeAffinity": required}},
    }
    pod = made(job({"template": template}, placed()))
    container = pod["spec"]["containers"][0]
    assert (container["name"], container["image"], container["command"]) == ("mine", "busybox", ["true"])
    assert container["resources"]["limits"]["rowen.dev/harvest"] == "1"
    assert (pod["metadata"]["labels"]["mine"], pod["metadata"]["labels"]["rowen.dev/job"]) == ("yes", "job")
    pin = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == {"nodeSelectorTerms": [{**term, "matchFields": [pin]}]}


def test_rendering_does_not_change_the_template() -> None:
    snapshot = job({"template": TEMPLATE}, placed())
    assert made(snapshot) == made(snapshot)
    assert "resources" not in TEMPLATE["spec"]["containers"][0]
