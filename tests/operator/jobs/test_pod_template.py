"""A user's part of a job's pod, on a real API server: what is merged, and what ends the job before it is placed."""

from typing import Any

import pytest
from manifests import apply
from operator_builders import BATCH, FINE_TUNE
from operator_cluster import FakeCluster, find
from operator_process import OperatorProcess, eventually

from rowen.kube.errors import RefusedError

WORK = [{"fineTune": FINE_TUNE}, {"batchInference": BATCH}]
OVERLAY: dict[str, Any] = {
    "metadata": {"labels": {"team": "search"}, "annotations": {"example.com/note": "n"}},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
                }
            }
        },
        "tolerations": [{"key": "burst", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "default",
        "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}],
        "containers": [
            {
                "name": "worker",
                "env": [
                    {"name": "HOME", "value": "/cache"},
                    {"name": "LD_PRELOAD", "value": "/usr/lib/libjemalloc.so"},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": 2}},
                "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
            }
        ],
    },
}


@pytest.mark.parametrize("work", WORK, ids=lambda work: next(iter(work)))
async def test_a_pod_template_is_merged_into_the_workers_pod(
    operator: OperatorProcess, cluster: FakeCluster, work: dict[str, Any]
) -> None:
    await cluster.create_job(**work, podTemplate=OVERLAY)
    await cluster.place()
    pod = await cluster.wait_pod("job-1")
    labels = pod["metadata"]["labels"]
    assert (labels["team"], labels["rowen.dev/job"], labels["app.kubernetes.io/managed-by"]) == (
        "search",
        "job",
        "rowen",
    )
    assert pod["metadata"]["annotations"]["example.com/note"] == "n"
    assert pod["metadata"]["annotations"]["rowen.dev/assignment"] == "a1"
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert {"key": "burst", "operator": "Exists"} in spec["tolerations"]
    assert (spec["imagePullSecrets"], spec["serviceAccountName"]) == ([{"name": "registry"}], "default")
    assert (spec["automountServiceAccountToken"], spec["securityContext"]["runAsNonRoot"]) == (False, True)
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [sorted(term) for term in terms] == [["matchExpressions", "matchFields"]]
    container = spec["containers"][0]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env["HOME"], env["LD_PRELOAD"]) == ("/cache", "/run/rowen/librowen.so:/usr/lib/libjemalloc.so")
    assert {"ROWEN_JOB_SPEC", "ROWEN_ATTEMPT", "ROWEN_JOB_UID"} <= env.keys()
    assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert (limits["cpu"], limits["rowen.dev/harvest"], limits["memory"]) == ("2", "1", str(4 << 30))
    assert (requests["cpu"], requests["memory"]) == ("250m", str(4 << 30))
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/cache", "/tmp", "/volumes/data", "/volumes/models"} <= paths
    assert {"cache", "tmp"} <= {volume["name"] for volume in spec["volumes"]}


def container(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "worker", **fields}]}}}


def spec(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIRST, SECOND = {"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nowhere"}}}
UNKNOWN = {"name": "C", "valueFrom": {"fieldReff": {}}}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "a source of a variable",
        container(env=[FIRST, SECOND]),
        "spec.podTemplate.spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value",
    ),
    ("an unknown field", container(env=[UNKNOWN]), "spec.podTemplate.spec.containers[0].env[0].valueFrom.fieldReff"),
    (
        "more requested than allowed",
        container(resources={"limits": {"cpu": "1m"}}),
        "spec.podTemplate.spec.containers[0].resources.requests: Invalid value",
    ),
    (
        "a volume of two kinds",
        spec(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        "spec.podTemplate.spec.volumes[1].hostPath: Forbidden",
    ),
    (
        "a toleration without a key",
        spec(tolerations=[{"operator": "Equal", "value": "x"}]),
        "spec.podTemplate.spec.tolerations[0].operator: Invalid value",
    ),
    (
        "an operator of an affinity",
        spec(
            affinity={
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}
                }
            }
        ),
        f"spec.podTemplate.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
    ),
    (
        "a list for a field",
        spec(affinity={"nodeAffinity": []}),
        "podTemplate.spec.affinity.nodeAffinity",
    ),
    (
        "a label",
        {"podTemplate": {"metadata": {"labels": {"a b": "c"}}}},
        "spec.podTemplate.metadata.labels: Invalid value",
    ),
    (
        "a whole template's field",
        {"template": {"spec": {"containers": [{"name": "x", "image": "i", "ports": [{"containerPort": 0}]}]}}},
        "spec.template.spec.containers[0].ports[0].containerPort: Required value",
    ),
]


async def test_a_wrong_part_ends_the_job_before_it_is_placed(operator: OperatorProcess, cluster: FakeCluster) -> None:
    for number, (_, wrong, _) in enumerate(WRONG):
        await cluster.create_job(f"wrong-{number}", **wrong, suspend=number % 2 == 0)
    for number, (case, _, told) in enumerate(WRONG):
        job = await cluster.wait_condition("Finished", "InvalidTemplate", name=f"wrong-{number}")
        assert told in find(job, "Finished")["message"], case
        assert job["status"]["state"] == "Failed"
        assert await cluster.pod(f"wrong-{number}-1") is None


async def test_what_may_pass_is_told_and_ends_no_job(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job(podTemplate={"spec": {"serviceAccountName": "later", "priorityClassName": "nowhere"}})
    await eventually(lambda: _has(cluster, "PodForbidden"))
    await cluster.place()
    job = await cluster.wait_condition("Running", "PodForbidden")
    assert find(job, "Finished")["status"] == "False"


async def test_a_policy_that_denies_pods_ends_no_job(operator: OperatorProcess, cluster: FakeCluster) -> None:
    """It says so with the code of an invalid object."""
    group = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": cluster.namespace}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}}
    policy = {
        "matchConstraints": {"resourceRules": [pods]},
        "validations": [{"expression": "false", "message": "no pods today"}],
    }
    await apply(cluster.client, {**group, "kind": "ValidatingAdmissionPolicy", "spec": policy}, manager="test")
    binding = {"policyName": cluster.namespace, "validationActions": ["Deny"], "matchResources": chosen}
    await apply(cluster.client, {**group, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding}, manager="test")

    async def in_force() -> bool:
        try:
            await cluster.create_foreign_pod("any")
        except RefusedError as error:
            return error.status == 422
        await cluster.delete("pods/any", gracePeriodSeconds=0)
        return False

    await eventually(in_force)
    await cluster.create_job(podTemplate={"metadata": {"labels": {"a": "b"}}})
    await cluster.place()
    job = await cluster.wait_condition("Running", "PodRefused")
    assert "no pods today" in find(job, "Running")["message"]
    assert find(job, "Finished")["status"] == "False"


async def _has(cluster: FakeCluster, reason: str) -> bool:
    return reason in await cluster.events()
