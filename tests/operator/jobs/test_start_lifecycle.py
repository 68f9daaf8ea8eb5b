"""Placements whose pod never runs are told of, against a real API server."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer
from manifests import apply, delete, path
from operator_cluster import FakeCluster, find
from operator_process import OperatorProcess, eventually, grant

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.timestamps import rfc3339
from rowen.operator.pods.security import container_security_context, pod_security_context

UNPRIVILEGED = {"securityContext": pod_security_context()}
CONTAINER = {"name": "worker", "image": "registry.test/none", "securityContext": container_security_context()}


@pytest.fixture
async def granted(kube: Client) -> None:
    """The operator's rights."""
    await grant(kube)


@pytest.fixture
def patient(granted: None, api_server: ApiServer, tmp_path: Path) -> OperatorProcess:
    """An operator, not yet started, that waits longer than any test."""
    return OperatorProcess(api_server, tmp_path / "patient.log")


@pytest.fixture
def hasty(
    granted: None, api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OperatorProcess]:
    """An operator, not yet started, for which a second is too long; with a sign of the API server each second."""
    monkeypatch.setenv("ROWEN_RESYNC_SECONDS", "1")
    log = tmp_path / "hasty.log"
    log.touch()
    yield OperatorProcess(api_server, log, start_deadline_seconds=1)
    print(log.read_text())


async def test_an_image_that_cannot_be_pulled(
    patient: OperatorProcess, hasty: OperatorProcess, cluster: FakeCluster
) -> None:
    with patient:
        await cluster.create_job(template={"spec": {**UNPRIVILEGED, "containers": [CONTAINER]}})
        await cluster.place()
        await cluster.wait_pod("job-1")
        await cluster.bind("job-1")
        words = 'Back-off pulling image "registry.test/none": ErrImagePull: registry.test/none: not found'
        await cluster.pod_status("job-1", "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": words}})
        await cluster.wait_condition("Running", "ImagePullBackOff")
    with hasty:
        job = await cluster.wait_condition("Running", "NotStarted")
        told = job["status"]["startFailure"]
        assert (told["assignment"], told["reason"], told["cause"]) == ("a1", "ImagePullBackOff", "Job")
        assert "registry.test/none" in find(job, "Running")["message"]
        assert (job["status"]["failures"], job["status"]["countedAttempt"]) == (1, 1)
        assert job["status"]["assignment"]["id"] == "a1"
        kept = await cluster.pod("job-1")
        assert kept is not None
        assert "deletionTimestamp" not in kept["metadata"]
        await cluster.evict()
        withdrawn = await cluster.wait_condition("Running", "NotPlaced")
        assert withdrawn["status"]["startFailure"] == told
    # The other one would give up the second attempt before it is seen to start.
    with patient:
        await cluster.reap("job-1")
        await cluster.place(id_="a2", node="node-2")
        await cluster.wait_pod("job-2")
        again = await cluster.wait_condition("Running", "Starting")
        assert "startFailure" not in again["status"]
        assert again["status"]["failures"] == 1
        assert (await cluster.events()).count("NotStarted") == 1


async def test_a_kubelet_that_turns_every_pod_away(
    patient: OperatorProcess, hasty: OperatorProcess, cluster: FakeCluster
) -> None:
    with patient:
        await cluster.create_job(backoffLimit=0)
        await cluster.place()
        await cluster.wait_pod("job-1")
        await cluster.bind("job-1")
        # From then on its back-off is reckoned.
        later = rfc3339(time.time() + 3600)
        words = {"reason": "UnexpectedAdmissionError", "message": "Pod was rejected: Allocate failed"}
        await cluster.pod_status("job-1", "Failed", startTime=later, **words)
        await cluster.wait_condition("Running", "BackOff")
    with hasty:
        job = await cluster.wait_condition("Running", "NotStarted")
        assert job["status"]["startFailure"]["reason"] == "UnexpectedAdmissionError"
        assert "Allocate failed" in find(job, "Running")["message"]
        assert (job["status"]["failures"], job["status"]["attempts"]) == (0, 1)
        assert find(job, "Finished")["status"] == "False"


async def _forbids(cluster: FakeCluster) -> bool:
    """Whether the API server knows of the quota by now."""
    pod = {"metadata": {"name": "probe"}, "spec": {**UNPRIVILEGED, "containers": [CONTAINER]}}
    try:
        pods = path("v1", cluster.namespace, "pods")
        await cluster.client.call("POST", pods, query={"dryRun": "All"}, body=pod)
    except RefusedError as error:
        return error.status == 403
    return False


async def test_a_quota(hasty: OperatorProcess, cluster: FakeCluster) -> None:
    quota = {"metadata": {"name": "small", "namespace": cluster.namespace}, "spec": {"hard": {"pods": "0"}}}
    await apply(cluster.client, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, manager="user")
    # As the quota controller would fill it in.
    await cluster.patch("resourcequotas/small/status", {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}})
    await eventually(lambda: _forbids(cluster))
    with hasty:
        await cluster.create_job(backoffLimit=0)
        await cluster.place()
        job = await cluster.wait_condition("Running", "NotStarted")
        told = job["status"]["startFailure"]
        assert (told["reason"], told["cause"]) == ("PodForbidden", "Cluster")
        assert "exceeded quota: small" in told["message"]
        assert job["status"]["attempts"] == 0
        assert find(job, "Finished")["status"] == "False"


async def test_a_template_that_pod_security_forbids(hasty: OperatorProcess, cluster: FakeCluster) -> None:
    with hasty:
        await cluster.create_job(template={"spec": {"containers": [{"name": "w", "image": "i"}]}}, backoffLimit=0)
        await cluster.place()
        job = await cluster.wait_condition("Finished", "PodForbidden")
        assert "violates PodSecurity" in find(job, "Finished")["message"]
        assert (job["status"]["failures"], job["status"]["state"]) == (1, "Failed")
        assert job["status"]["startFailure"]["cause"] == "Job"


@pytest.fixture
async def dead_webhook(cluster: FakeCluster) -> AsyncIterator[None]:
    """An admission webhook for the namespace's pods whose server is gone."""
    webhook: dict[str, Any] = {
        "name": "dead.rowen.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    manifest = {**head, "metadata": {"name": cluster.namespace}, "webhooks": [webhook]}
    await apply(cluster.client, manifest, manager="user")
    yield
    url = f"validatingwebhookconfigurations/{cluster.namespace}"
    await delete(cluster.client, head["apiVersion"], None, url)


async def test_an_admission_webhook_that_does_not_answer(
    dead_webhook: None, hasty: OperatorProcess, cluster: FakeCluster
) -> None:
    with hasty:
        await cluster.create_job()
        await cluster.place()
        job = await cluster.wait_condition("Running", "NotStarted")
        told = job["status"]["startFailure"]
        assert (told["reason"], told["cause"]) == ("PodRefused", "Cluster")
        assert 'failed calling webhook "dead.rowen.test"' in told["message"]


async def test_an_older_pod_that_does_not_stop(
    patient: OperatorProcess, hasty: OperatorProcess, cluster: FakeCluster
) -> None:
    with patient:
        await cluster.create_job()
        await cluster.place()
        await cluster.wait_pod("job-1")
        await cluster.run_pod("job-1")
        await cluster.wait_condition("Running", "Running")
        await cluster.place(id_="a2", node="node-2")
        await cluster.wait_condition("Running", "Stopping")
    with hasty:
        job = await cluster.wait_condition("Running", "NotStarted")
        told = job["status"]["startFailure"]
        assert (told["assignment"], told["reason"], told["cause"]) == ("a2", "Stopping", "Cluster")
        assert await cluster.pod("job-2") is None


async def test_silence(hasty: OperatorProcess, cluster: FakeCluster) -> None:
    with hasty:
        await cluster.create_job()
        await cluster.place()
        job = await cluster.wait_condition("Running", "NotStarted")
        assert job["status"]["startFailure"]["reason"] == "StartDeadlineExceeded"
        await cluster.run_pod("job-1")
        await eventually(lambda: _has(cluster, "NotStarted"))
        runs = await cluster.wait_condition("Running", "Running")
        assert find(runs, "Running")["status"] == "True"
        assert "startFailure" not in runs["status"]


async def test_a_templates_own_preload_follows_the_gate_library(patient: OperatorProcess, cluster: FakeCluster) -> None:
    container = {**CONTAINER, "env": [{"name": "LD_PRELOAD", "value": "/usr/lib/libjemalloc.so.2"}]}
    with patient:
        await cluster.create_job(template={"spec": {**UNPRIVILEGED, "containers": [container]}})
        await cluster.place()
        pod = await cluster.wait_pod("job-1")
        wanted = "/run/rowen/librowen.so:/usr/lib/libjemalloc.so.2"
        assert pod["spec"]["containers"][0]["env"] == [{"name": "LD_PRELOAD", "value": wanted}]


async def test_a_template_that_forges_the_device_is_refused(patient: OperatorProcess, cluster: FakeCluster) -> None:
    container = {**CONTAINER, "env": [{"name": "ROWEN_TENANT_SOCKETS", "value": "/dev/null"}]}
    with patient:
        await cluster.create_job(template={"spec": {**UNPRIVILEGED, "containers": [container]}})
        job = await cluster.wait_condition("Finished", "InvalidTemplate")
        assert "template.spec.containers[0].env[0]: ROWEN_TENANT_SOCKETS" in find(job, "Finished")["message"]


async def _has(cluster: FakeCluster, reason: str) -> bool:
    return reason in await cluster.events()
