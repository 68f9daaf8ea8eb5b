"""Beside queues, quotas and limits of others, on a real API server."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from manifests import apply, apply_status, patch, path
from operator_cluster import ROWEN, FakeCluster, find
from operator_process import OperatorProcess, eventually

from rowen.crds.names import HARVEST_RESOURCE
from rowen.kube.errors import RefusedError
from rowen.kube.timestamps import rfc3339

EXAMPLES = Path(__file__).parents[3] / "examples" / "kueue"
QUEUE = "kueue.x-k8s.io/queue-name"


def example(name: str, namespace: str) -> dict[str, Any]:
    found = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return {**found, "metadata": {**found["metadata"], "namespace": namespace}}


async def refused(cluster: FakeCluster, words: str, limits: dict[str, str]) -> bool:
    """Whether the API server knows of a rule by now, which follows a moment after it was made."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "c", "image": "i", "securityContext": security, "resources": {"limits": limits}}
    pod = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
    body = {"metadata": {"name": "probe"}, "spec": {**pod, "containers": [container]}}
    try:
        await cluster.client.call("POST", path("v1", cluster.namespace, "pods"), query={"dryRun": "All"}, body=body)
    except RefusedError as error:
        return words in str(error)
    return False


async def quota(cluster: FakeCluster, used: str) -> None:
    """A quota of one device, with so many in use, as the quota controller tells."""
    name = f"requests.{HARVEST_RESOURCE}"
    meta = {"name": "small", "namespace": cluster.namespace}
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {name: "1"}}}
    await apply(cluster.client, manifest, manager="user")
    await cluster.patch("resourcequotas/small/status", {"status": {"hard": {name: "1"}, "used": {name: used}}})


async def test_a_quota_of_devices_holds_and_the_job_comes_when_there_is_room(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await quota(cluster, "1")
    await eventually(lambda: refused(cluster, "exceeded quota", {HARVEST_RESOURCE: "1", "memory": "1Mi"}))
    await cluster.create_job()
    await cluster.place()
    job = await cluster.wait_condition("Running", "PodForbidden")
    assert "exceeded quota: small, requested: requests.rowen.dev/harvest=1" in find(job, "Running")["message"]
    assert find(job, "Finished")["status"] == "False"
    await cluster.patch("offlinejobs/job", {"spec": {"suspend": True}}, ROWEN)
    await cluster.wait_condition("Suspended", "Suspended")
    await quota(cluster, "0")
    await cluster.patch("offlinejobs/job", {"spec": {"suspend": False}}, ROWEN)
    await cluster.wait_pod("job-1")


async def test_a_limit_range_fills_in_and_refuses(operator: OperatorProcess, cluster: FakeCluster) -> None:
    meta = {"name": "limits", "namespace": cluster.namespace}
    limit = {"type": "Container", "default": {"cpu": "2"}, "max": {"memory": "8Gi"}}
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limit]}}
    await apply(cluster.client, manifest, manager="user")
    await eventually(lambda: refused(cluster, "maximum memory usage", {"memory": "9Gi"}))
    await cluster.create_job(memory="4Gi")
    await cluster.place()
    pod = await cluster.wait_pod("job-1")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "2", "memory": str(4 * 2**30), HARVEST_RESOURCE: "1",
    }  # fmt: skip
    await cluster.create_job("large", memory="9Gi")
    await cluster.place("large")
    job = await cluster.wait_condition("Running", "PodForbidden", name="large")
    assert "maximum memory usage per Container is 8Gi" in find(job, "Running")["message"]


async def test_a_pod_waits_behind_its_gate_and_goes_on_without(operator: OperatorProcess, cluster: FakeCluster) -> None:
    """As with a queueing system that lets in pods."""
    await apply(cluster.client, example("gated-pod", cluster.namespace), manager="user")
    await cluster.place("gated")
    pod = await cluster.wait_pod("gated-1")
    assert pod["metadata"]["labels"][QUEUE] == "team-a"
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    with pytest.raises(RefusedError):
        await cluster.bind("gated-1")
    waits = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}
    await cluster.patch("pods/gated-1/status", {"status": {"phase": "Pending", "conditions": [waits]}})
    await cluster.wait_condition("Running", "SchedulingGated", name="gated")
    await patch(cluster.client, "v1", cluster.namespace, "pods/gated-1", {"spec": {"schedulingGates": None}})
    await cluster.bind("gated-1")
    state = {"running": {"startedAt": rfc3339(time.time())}}
    runs = {"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": state}
    body = {"phase": "Running", "conditions": [waits | {"status": "True"}], "containerStatuses": [runs]}
    await cluster.patch("pods/gated-1/status", {"status": body})
    await cluster.wait_condition("Running", "Running", name="gated")


async def test_a_suspended_job_runs_when_its_queue_lets_it(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await apply(cluster.client, example("suspended", cluster.namespace), manager="user")
    await cluster.wait_condition("Suspended", "Suspended", name="queued")
    assert await cluster.pod("queued-1") is None
    await cluster.patch("offlinejobs/queued", {"spec": {"suspend": False}}, ROWEN)
    await cluster.place("queued")
    await cluster.wait_pod("queued-1")


async def test_a_job_of_another_cluster_has_its_status_from_there(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    """Its controller copies it, without `managedBy`, and copies the copy's status back; Rowen runs the copy alone."""
    theirs = example("managed-by", cluster.namespace)
    await apply(cluster.client, theirs, manager="user")
    copied = {name: value for name, value in theirs["spec"].items() if name not in ("managedBy", "suspend")}
    copy = {**theirs, "metadata": {**theirs["metadata"], "name": "copy"}, "spec": copied}
    await apply(cluster.client, copy, manager="multikueue")
    await cluster.place("copy")
    await cluster.wait_pod("copy-1")
    told = await cluster.wait_condition("Running", "Starting", name="copy")
    head = {name: theirs[name] for name in ("apiVersion", "kind", "metadata")}
    await apply_status(cluster.client, {**head, "status": told["status"]}, manager="multikueue")
    done = {"type": "Finished", "status": "True", "reason": "Completed", "lastTransitionTime": rfc3339(0.0)}
    await apply_status(
        cluster.client, {**head, "status": {**told["status"], "conditions": [done]}}, manager="multikueue"
    )
    # What comes after it has been dealt with, so it has been as well.
    await cluster.create_job("later")
    await cluster.wait_condition("Running", "NotPlaced", name="later")
    found = await cluster.job("elsewhere")
    assert found is not None
    assert found["status"]["conditions"] == [done]
    assert await cluster.pod("elsewhere-1") is None
