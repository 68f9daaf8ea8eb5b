"""`helm test`: what its verdicts mean, and that it gets along with the rights that the chart gives it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from apiserver import ApiServer
from helm import NAMESPACE, render
from manifests import apply, apply_status

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.crds.names import API_VERSION, OPERATOR_MANAGER, SCHEDULER_MANAGER
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import list_all
from rowen.operator import smoke

NOW = "2026-01-01T00:00:00Z"
IMAGE = "rowen/controlplane:0.1.0"


def _condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


_ASSIGNMENT = {
    "id": "a", "node": "n", "devices": ["cpu1"], "predictedFraction": 1.0, "time": NOW,
    "lease": {"durationSeconds": 30, "renewTime": NOW},
}  # fmt: skip
_COMPLETED = {"conditions": [_condition("Finished", "True", "Completed", "attempt 1: exit code 0")]}
_FAILED = {"conditions": [_condition("Finished", "True", "Failed", "attempt 1: Error (exit code 1)")]}
_REFUSED = {"explanation": {"message": "node-1: no online engine is attached"}}
_STUCK = {
    "assignment": _ASSIGNMENT,
    "conditions": [_condition("Placed", "True", "Placed")],
    "explanation": {"message": "chosen: node-1"},
    "state": "Starting",
}


@pytest.mark.parametrize(
    ("status", "out_of_time", "passed", "message"),
    [
        ({}, False, None, ""),
        ({}, True, False, "neither scheduler nor operator answered"),
        (_COMPLETED, False, True, "Completed: attempt 1"),
        (_FAILED, False, False, "Failed: attempt 1"),
        (_REFUSED, False, None, ""),
        (_REFUSED, True, True, "no online engine is attached"),
        (_STUCK, False, None, ""),
        (_STUCK, True, False, "was placed and did not finish: state Starting"),
    ],
)
def test_verdict(status: dict[str, Any], out_of_time: bool, passed: bool | None, message: str) -> None:
    verdict = smoke.verdict(OfflineJobStatus.from_wire(status), out_of_time=out_of_time)
    assert (verdict.passed if verdict else None) is passed
    assert message in (verdict.message if verdict else "")


@pytest.fixture
async def tester(api_server: ApiServer, release: Any, kube: Client) -> AsyncIterator[Client]:
    """A client with the rights of the test's service account and no others."""
    for manifest in render({}):
        if manifest["kind"] in ("Role", "RoleBinding") and manifest["metadata"]["name"] == "rowen-test":
            await apply(kube, manifest, manager="test")
    kubeconfig = api_server.kubeconfig_for(f"system:serviceaccount:{NAMESPACE}:rowen-test")
    async with await api_server.open(kubeconfig) as client:
        yield client


async def _answer(kube: Client, status: dict[str, Any], manager: str) -> None:
    """Plays a component: writes the status as soon as the job is there."""
    job = {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": {"name": smoke.NAME, "namespace": NAMESPACE}}
    for _ in range(600):
        try:
            await apply_status(kube, {**job, "status": status}, manager=manager)
        except RefusedError:
            await asyncio.sleep(0.05)
        else:
            return


async def _jobs(kube: Client) -> list[str]:
    return [job["metadata"]["name"] for job in await list_all(kube, OFFLINE_JOBS, namespace=NAMESPACE)]


@pytest.mark.parametrize(
    ("status", "manager", "seconds", "passed"),
    [
        (_COMPLETED, OPERATOR_MANAGER, 30.0, True),
        (_FAILED, OPERATOR_MANAGER, 30.0, False),
        (_REFUSED, SCHEDULER_MANAGER, 10.0, True),
    ],
    ids=["completed", "failed", "nothing to harvest"],
)
async def test_run(
    kube: Client, tester: Client, status: dict[str, Any], manager: str, seconds: float, passed: bool
) -> None:
    verdict, _ = await asyncio.gather(smoke.run(tester, NAMESPACE, IMAGE, seconds), _answer(kube, status, manager))
    assert verdict.passed is passed, verdict.message
    assert smoke.NAME not in await _jobs(kube)


async def test_its_pod_satisfies_the_restricted_profile(kube: Client, release: Any) -> None:
    spec = smoke.job(NAMESPACE, IMAGE)["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "smoke-probe", "namespace": NAMESPACE}, "spec": spec}
    await apply(kube, pod, manager="test")
