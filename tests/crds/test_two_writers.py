"""Scheduler and operator write one status, each its own fields, and neither takes anything from the other."""

from typing import Any

import pytest
from kubectl import Kubectl
from manifests import apply, apply_status
from samples import offline_job

from rowen.crds.job.offline_job_status import OfflineJobStatus, Progress
from rowen.crds.names import OPERATOR_MANAGER, SCHEDULER_MANAGER
from rowen.kube.client import Client

NOW = "2026-01-01T00:00:00Z"


def _condition(type_: str, status: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "Test", "message": "", "lastTransitionTime": NOW}


ASSIGNMENT = {
    "id": "a1", "node": "node-1", "devices": ["cpu1"], "predictedFraction": 0.5, "time": NOW,
    "lease": {"durationSeconds": 30, "renewTime": NOW},
}  # fmt: skip


@pytest.fixture
async def job(kube: Client, namespace: str) -> dict[str, Any]:
    manifest = offline_job()
    manifest["metadata"]["namespace"] = namespace
    await apply(kube, manifest, manager="user")
    return {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}


async def _scheduler(kube: Client, job: dict[str, Any], **status: Any) -> None:
    await apply_status(kube, {**job, "status": status}, manager=SCHEDULER_MANAGER)


async def _operator(kube: Client, job: dict[str, Any], **status: Any) -> None:
    await apply_status(kube, {**job, "status": status}, manager=OPERATOR_MANAGER)


async def test_conditions_of_both_stand_side_by_side(kube: Client, job: dict[str, Any], kubectl: Kubectl) -> None:
    await _scheduler(kube, job, conditions=[_condition("Placed", "True")], assignment=ASSIGNMENT)
    progress = Progress(unit="steps", completed=1, total=4).to_wire()
    await _operator(kube, job, conditions=[_condition("Running", "True")], progress=progress)
    await _scheduler(kube, job, conditions=[_condition("Placed", "False")])

    status = kubectl.get("ojob", "tune")["status"]
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "Placed": "False",
        "Running": "True",
    }
    assert "assignment" not in status, "what the scheduler leaves out is gone"
    assert status["progress"]["display"] == "1/4"


async def test_a_stored_status_is_read_back(kube: Client, job: dict[str, Any], kubectl: Kubectl) -> None:
    written = OfflineJobStatus(state="Running", progress=Progress(unit="rows", completed=2, total=3), attempts=1)
    await _operator(kube, job, **written.to_wire())
    assert OfflineJobStatus.from_wire(kubectl.get("ojob", "tune")["status"]) == written


async def test_the_status_is_not_written_with_the_object(
    kube: Client, job: dict[str, Any], namespace: str, kubectl: Kubectl
) -> None:
    manifest = offline_job()
    manifest["metadata"]["namespace"] = namespace
    await apply(kube, {**manifest, "status": {"state": "Completed"}}, manager="user")
    assert "status" not in kubectl.get("ojob", "tune")


async def test_people_can_wait_for_a_condition(kube: Client, job: dict[str, Any], kubectl: Kubectl) -> None:
    await _operator(kube, job, conditions=[_condition("Finished", "True")])
    assert kubectl.run("wait", "ojob/tune", "--for=condition=Finished", "--timeout=10s").ok
