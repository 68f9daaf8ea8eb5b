"""The pod of an attempt."""

import json
from typing import Any

import pytest
from operator_builders import BATCH, FINE_TUNE, IMAGE, NODE, TEMPLATE, job, placed

from rowen.crds.job.worker import BatchSpec, TuningSpec, WorkerSpec
from rowen.operator.jobs.pod import job_pod
from rowen.operator.jobs.snapshot import JobSnapshot


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
    assert (worker.dataset.where, worker.output.where) == ("/volumes/data/train.jsonl", "/volumes/out/adapter")
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


@pytest.mark.parametrize("work", [{"batchInference": BATCH}, {"fineTune": FINE_TUNE}])
def test_a_worker_with_a_limit_has_its_own_memory_and_a_part_of_the_pool(work: dict[str, Any]) -> None:
    pod = made(job({**work, "memory": "2Gi", "memoryLimit": "5Gi"}, placed()))
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources == {
        "requests": {"cpu": "100m", "memory": str(2 << 30)},
        "limits": {"rowen.dev/harvest": "1", "memory": str(5 << 30)},
    }
    assert environment(pod)["ROWEN_POOL_BYTES"] == str(3 << 30)
    worker = WorkerSpec.validate_json(environment(pod)["ROWEN_JOB_SPEC"])
    assert isinstance(worker, TuningSpec) or worker.memory_bytes == 2 << 30


def test_a_templates_tenant_with_a_limit_has_its_own_memory_and_a_part_of_the_pool() -> None:
    mine = {"name": "mine", "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "1"}}}
    side = {"name": "side"}
    pod = made(job({"template": {"spec": {"containers": [mine, side]}}, "memoryLimit": "4.5Gi"}, placed()))
    first, second = pod["spec"]["containers"]
    assert first["resources"] == {
        "requests": {"cpu": "1", "memory": str(4 << 30)},
        "limits": {"memory": str(9 << 29), "rowen.dev/harvest": "1"},
    }
    assert first["env"] == [{"name": "A", "value": "b"}, {"name": "ROWEN_POOL_BYTES", "value": str(1 << 29)}]
    assert second == side


@pytest.mark.parametrize("work", [{"batchInference": BATCH}, {"fineTune": FINE_TUNE}, {"template": TEMPLATE}])
def test_a_limit_that_adds_nothing_changes_nothing(work: dict[str, Any]) -> None:
    without = made(job({**work, "memory": "2Gi"}, placed()))
    assert made(job({**work, "memory": "2Gi", "memoryLimit": "2048Mi"}, placed())) == without
    container = without["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"rowen.dev/harvest": "1", "memory": str(2 << 30)}
    assert container["resources"].get("requests", {}).get("memory") == (None if "template" in work else str(2 << 30))
    assert "ROWEN_POOL_BYTES" not in json.dumps(without)


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


@pytest.mark.parametrize(("said", "expected"), [({}, 5), ({"terminationGracePeriodSeconds": 40}, 40)])
def test_a_pod_has_five_seconds_to_end_unless_its_template_says_otherwise(said: dict[str, int], expected: int) -> None:
    pod = made(job({"template": {"spec": {**TEMPLATE["spec"], **said}}}, placed()))
    assert pod["spec"]["terminationGracePeriodSeconds"] == expected


def test_rendering_does_not_change_the_template() -> None:
    snapshot = job({"template": TEMPLATE}, placed())
    assert made(snapshot) == made(snapshot)
    assert "resources" not in TEMPLATE["spec"]["containers"][0]


def test_secrets_are_mounted_once_read_only_and_never_in_the_environment() -> None:
    place = {"uri": "s3://bucket/in.jsonl", "secretName": "team-data"}
    output = {"uri": "s3://bucket/out.jsonl", "secretName": "team-data"}
    errors = {"uri": "gs://bucket/errors.jsonl", "secretName": "google"}
    batch = {"model": {"uri": "s3://bucket/llama"}, "input": place, "output": output, "errors": errors}
    pod = made(job({"batchInference": batch}, placed()))["spec"]
    assert [volume for volume in pod["volumes"] if "secret" in volume] == [
        {"name": "secret-0", "secret": {"secretName": "google", "optional": True}},
        {"name": "secret-1", "secret": {"secretName": "team-data", "optional": True}},
    ]
    [container] = pod["containers"]
    assert [mount for mount in container["volumeMounts"] if mount["name"].startswith("secret")] == [
        {"name": "secret-0", "mountPath": "/secrets/google", "readOnly": True},
        {"name": "secret-1", "mountPath": "/secrets/team-data", "readOnly": True},
    ]
    assert all("value" in entry for entry in container["env"])


@pytest.mark.parametrize(
    ("dataset", "asked"), [("hf://datasets/owner/name/train.jsonl", True), ("s3://bucket/train.jsonl", False)]
)
def test_the_hub_is_asked_for_a_dataset_on_it(dataset: str, asked: bool) -> None:
    pod = made(job({"fineTune": {**FINE_TUNE, "dataset": {"uri": dataset}}}, placed()))
    assert ("HF_HUB_OFFLINE" not in environment(pod)) is asked
