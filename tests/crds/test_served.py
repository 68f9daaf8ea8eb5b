"""The definitions on a real API server: accepted, defaulted, explained, shown and scaled."""

import json
from typing import Any

import pytest
from kubectl import Kubectl
from samples import TEMPLATE, changed, offline_job, online_service

from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus, PoolOwners
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import OfflineJobStatus, Progress
from rowen.crds.kinds import KINDS, Kind
from rowen.crds.service.online_service import ObservedLatency, OnlineServiceSpec, OnlineServiceStatus

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_established_and_structural(kubectl: Kubectl, kind: Kind) -> None:
    definition = kubectl.get("crd", f"{kind.plural}.rowen.dev")
    conditions = {condition["type"]: condition["status"] for condition in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_short_name_and_category(kubectl: Kubectl, kind: Kind) -> None:
    listed = kubectl.run("api-resources", "--categories=rowen", "--no-headers").text
    assert f"{kind.plural} " in listed
    assert kubectl.run("get", kind.short_name).ok


def test_job_defaults_are_the_models(kubectl: Kubectl) -> None:
    manifest = offline_job()
    assert kubectl.apply(manifest).ok
    stored = kubectl.get("offlinejob", "tune")["spec"]
    assert stored == OfflineJobSpec.from_wire(manifest["spec"]).to_wire()


def test_service_defaults_are_the_models(kubectl: Kubectl) -> None:
    manifest = online_service()
    assert kubectl.apply(manifest).ok
    stored = kubectl.get("onlineservice", "chat")["spec"]
    assert stored == OnlineServiceSpec.from_wire(manifest["spec"]).to_wire()


def test_template_keeps_every_field(kubectl: Kubectl) -> None:
    assert kubectl.apply(offline_job(fineTune=None, template=TEMPLATE)).ok
    assert kubectl.get("ojob", "tune")["spec"]["template"] == TEMPLATE


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("ojob.spec.fineTune", "LoRA fine-tuning of a base model with TRL."),
        ("ojob.spec.fineTune.baseModel", "a folder on a volume"),
        ("ojob.spec.sla.throughputFraction", "as a fraction of the job's throughput alone"),
        ("ojob.status.explanation.candidates", "What the scheduler thought of one candidate."),
        ("osvc.spec.slo.ttft.target", "Upper bound, e.g. `500ms`."),
        ("nh.status.devices", "One entry per device."),
    ],
)
def test_explain(kubectl: Kubectl, path: str, text: str) -> None:
    explained = " ".join(kubectl.run("explain", path).text.split())
    assert text in explained


def test_scale(kubectl: Kubectl) -> None:
    assert kubectl.apply(online_service()).ok
    assert kubectl.run("scale", "osvc/chat", "--replicas=3").ok
    assert kubectl.get("osvc", "chat")["spec"]["engine"]["replicas"] == 3


def _condition(type_: str, status: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "Test", "lastTransitionTime": NOW}


def _row(kubectl: Kubectl, name: str, status: dict[str, Any]) -> dict[str, str]:
    patch = json.dumps({"status": status})
    outcome = kubectl.run("patch", name, "--subresource=status", "--type=merge", "-p", patch)
    assert outcome.ok, outcome.text
    header, row = (line.split() for line in kubectl.run("get", name).text.splitlines())
    return dict(zip(header, row, strict=True))


def test_service_row(kubectl: Kubectl) -> None:
    assert kubectl.apply(online_service()).ok
    status = OnlineServiceStatus(
        model="models/tiny",
        replicas=2,
        ready_replicas=1,
        ttft=ObservedLatency(percentile=99, value_seconds=0.01284, target_seconds=0.5),
        tpot=ObservedLatency(percentile=99, value_seconds=1.5, target_seconds=0.05),
        harvested_fraction=0.414,
    ).to_wire()
    row = _row(kubectl, "osvc/chat", {**status, "conditions": [_condition("SLOMet", "True")]})
    assert row.pop("AGE")
    assert row == {
        "NAME": "chat", "MODEL": "models/tiny", "REPLICAS": "2", "READY": "1", "SLO": "True",
        "TTFT": "12.8ms", "TPOT": "1.50s", "HARVESTED": "41%",
    }  # fmt: skip


def test_job_row(kubectl: Kubectl) -> None:
    assert kubectl.apply(offline_job()).ok
    status = OfflineJobStatus(kind="FineTune", state="Running", progress=Progress(completed=42, total=90)).to_wire()
    assignment = {
        "id": "a1", "node": "node-1", "devices": ["cpu1"], "predictedFraction": 0.5, "time": NOW,
        "lease": {"durationSeconds": 30, "renewTime": NOW},
    }  # fmt: skip
    conditions = [_condition("SLAMet", "Unknown")]
    row = _row(kubectl, "ojob/tune", {**status, "assignment": assignment, "conditions": conditions})
    assert row.pop("AGE")
    assert row == {
        "NAME": "tune", "KIND": "FineTune", "STATE": "Running", "NODE": "node-1", "PROGRESS": "42/90", "SLA": "Unknown",
    }  # fmt: skip


def test_a_wide_job_row_says_how_it_ended(kubectl: Kubectl) -> None:
    assert kubectl.apply(offline_job()).ok
    ended = {**_condition("Finished", "True"), "reason": "DatasetMissing"}
    status = {**OfflineJobStatus(kind="FineTune", state="Failed").to_wire(), "conditions": [ended]}
    assert kubectl.run(
        "patch", "ojob/tune", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    ).ok
    header, row = kubectl.run("get", "ojob/tune", "-o", "wide").text.splitlines()
    assert row[header.index("ENDED") :].split()[0] == "DatasetMissing"


def test_wide_rows_say_in_which_mode(kubectl: Kubectl) -> None:
    assert kubectl.apply(offline_job()).ok
    assert kubectl.apply(online_service(harvest={"mode": "CoServe"})).ok
    assignment = {
        "id": "a1", "node": "node-1", "devices": ["cpu1"], "predictedFraction": 0.5, "time": NOW, "mode": "CoServe",
        "lease": {"durationSeconds": 30},
    }  # fmt: skip
    patch = json.dumps({"status": {"assignment": assignment}})
    assert kubectl.run("patch", "ojob/tune", "--subresource=status", "--type=merge", "-p", patch).ok
    for name in ("ojob/tune", "osvc/chat"):
        header, row = kubectl.run("get", name, "-o", "wide").text.splitlines()
        assert row[header.index("MODE") :].split()[0] == "CoServe"


def test_an_engine_that_shares_its_device_compiles_as_it_likes(kubectl: Kubectl, namespace: str) -> None:
    """What would be in a rider's way is in nobody's: its neighbours are other processes."""
    service = changed(online_service(harvest={"mode": "Spatial"}), "spec.engine.args", ["--no-enforce-eager"])
    assert kubectl.apply(service).ok


def _device(name: str, *, harvestable: bool, idle: float, harvested: float) -> DeviceHarvest:
    return DeviceHarvest(
        id=name, type="cpu", memory_bytes=8 << 30, harvestable=harvestable, gate_open=True, idle_fraction=idle,
        harvested_fraction=harvested, preemptions=5,
    )  # fmt: skip


def test_node_row(kubectl: Kubectl, namespace: str) -> None:
    manifest = {"apiVersion": "rowen.dev/v1alpha1", "kind": "NodeHarvest", "metadata": {"name": namespace}}
    assert kubectl.apply(manifest).ok
    assert kubectl.get("nh", namespace)["spec"] == {"windowSeconds": 60, "intervalSeconds": 5}
    devices = [
        _device("cpu0", harvestable=True, idle=0.75, harvested=0.5),
        _device("cpu1", harvestable=False, idle=1.0, harvested=0.0),
    ]
    pool = PoolOwners(
        fixed_bytes=5 << 30, online_used_bytes=0, online_ahead_bytes=0, offline_bytes=3 << 29, free_bytes=0
    )
    devices[0] = devices[0].model_copy(update={"pool": pool})
    status = NodeHarvestStatus(update_time=NOW, backend="cpu", devices=devices).to_wire()
    row = _row(kubectl, f"nh/{namespace}", status)
    assert row.pop("AGE")
    assert row.pop("REPORTED")
    assert row == {
        "NAME": namespace, "DEVICES": "2", "HARVESTABLE": "1", "TENANTS": "0", "IDLE": "75%", "HARVESTED": "50%",
        "LENT": "1.5Gi",
    }  # fmt: skip
