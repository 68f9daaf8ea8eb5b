"""How a model comes to an engine: copied out of object storage by a container of its own, or read by vLLM."""

from typing import Any

from manifests import apply
from operator_builders import NAMESPACE, SLO

from rowen.kube.client import Client
from rowen.operator.services.manifests import deployment
from rowen.operator.services.snapshot import service_snapshot

RUNTIME = "registry.test/runtime:1"


def pod(model: dict[str, Any], **engine: Any) -> dict[str, Any]:
    manifest = {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"},
        "spec": {"slo": SLO, "engine": {"model": model, **engine}},
    }
    snapshot = service_snapshot(
        manifest, workload=None, cluster_service=None, pods=(), devices=(), runtime_image=RUNTIME
    )
    assert snapshot.spec.engine is not None
    spec: dict[str, Any] = deployment(snapshot, snapshot.spec.engine)["spec"]["template"]["spec"]
    return spec


def mounts(container: dict[str, Any]) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"]}


def test_a_model_in_object_storage_is_copied_before_the_engine_starts() -> None:
    spec = pod({"uri": "s3://models/llama/", "secretName": "team"}, image="mine/vllm:1")
    [copy], [engine] = spec["initContainers"], spec["containers"]
    assert copy["image"] == RUNTIME
    assert copy["command"] == [
        "python", "-m", "rowen.runtime.storage", "s3://models/llama/", "/tmp/model", "--secret-name", "team"
    ]  # fmt: skip
    assert engine["command"][engine["command"].index("--model") + 1] == "/tmp/model/llama"
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in engine["env"]
    # The engine's image is the user's: it has no credentials.
    assert (mounts(copy), mounts(engine)) == ({"/tmp", "/secrets/team"}, {"/tmp"})


def test_a_model_on_the_hub_is_read_with_the_secrets_token() -> None:
    spec = pod({"huggingFace": {"repo": "org/model", "revision": "abc"}, "secretName": "hub"})
    [engine] = spec["containers"]
    assert "initContainers" not in spec
    assert mounts(engine) == {"/tmp", "/secrets/hub"}
    assert {"name": "HF_TOKEN_PATH", "value": "/secrets/hub/HF_TOKEN"} in engine["env"]


def test_a_model_on_a_volume_needs_neither() -> None:
    spec = pod({"claimName": "models", "path": "llama"})
    assert "initContainers" not in spec
    assert not any("secret" in volume for volume in spec["volumes"])
    assert "HF_TOKEN_PATH" not in {entry["name"] for entry in spec["containers"][0]["env"]}


async def test_the_pod_satisfies_the_restricted_profile(kube: Client, namespace: str) -> None:
    spec = pod({"uri": "s3://models/llama", "secretName": "team"})
    await apply(
        kube,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat", "namespace": namespace}, "spec": spec},
        manager="test",
    )
