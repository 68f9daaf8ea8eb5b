"""Short ways to make jobs, services, pods and reports as the API server returns them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowen.crds.harvest.latency_counts import LatencyCounts, RequestCounts, cell_of
from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Refusal, Trial
from rowen.operator.jobs.snapshot import JobSnapshot, job_snapshot
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.pods.view import PodView
from rowen.operator.services.objective import Objective
from rowen.operator.services.proportions import Proportion
from rowen.operator.world.listening import Listening
from rowen.operator.world.reports import Report, read_report

NOW = 1_800_000_000.0
NAMESPACE = "team"
NODE = "node-1"
IMAGE = "registry.test/runtime:1"
START_DEADLINE_SECONDS = 600.0
GAP_SECONDS = 45.0
LISTENING = Listening(0.0, NOW)
TAKEN = Trial(None)

FINE_TUNE: dict[str, Any] = {
    "baseModel": {"claimName": "models", "path": "llama"},
    "dataset": {"claimName": "data", "path": "train.jsonl"},
    "output": {"claimName": "out", "path": "adapter"},
}
BATCH: dict[str, Any] = {
    "model": {"claimName": "models", "path": "llama"},
    "input": {"claimName": "data", "path": "in.jsonl"},
    "output": {"claimName": "data", "path": "out"},
}
ENGINE = EngineAddress("http://10.0.0.7:8000", "chat-a")
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "mine", "image": "busybox", "command": ["true"]}]}}
SLO: dict[str, Any] = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}}


def assignment(id_: str = "a1", *, node: str = NODE, renewed: float = NOW, made: float = NOW) -> dict[str, Any]:
    """An assignment with a lease."""
    return {
        "id": id_,
        "node": node,
        "devices": ["cpu1"],
        "predictedFraction": 0.5,
        "time": rfc3339(made),
        "lease": {"durationSeconds": NODE_LEASE_SECONDS, "renewTime": rfc3339(renewed)},
    }


def condition(type_: str, status: str, reason: str = "Test", *, since: float = NOW) -> dict[str, Any]:
    """A condition."""
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": rfc3339(since)}


PLACED = [condition("Admitted", "True"), condition("Placed", "True")]


def placed(
    id_: str = "a1", *, node: str = NODE, renewed: float = NOW, made: float = NOW, **status: Any
) -> dict[str, Any]:
    """The status of a job that the scheduler has placed."""
    return {"conditions": PLACED, "assignment": assignment(id_, node=node, renewed=renewed, made=made), **status}


def job_manifest(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, *, name: str = "job", **metadata: Any
) -> dict[str, Any]:
    """An OfflineJob; a fine-tuning one by default."""
    head = {"name": name, "namespace": NAMESPACE, "uid": "u1", "generation": 1, "resourceVersion": "1"}
    return {
        "apiVersion": "rowen.dev/v1alpha1",
        "kind": "OfflineJob",
        "metadata": {**head, **metadata},
        "spec": {"fineTune": FINE_TUNE} if spec is None else spec,
        "status": status or {},
    }


def job(
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    *,
    pods: tuple[PodView, ...] = (),
    reports: tuple[Report, ...] = (),
    refusal: Refusal | None = None,
    wait: StartWait | None = None,
    trial: Trial | None = TAKEN,
    **metadata: Any,
) -> JobSnapshot:
    """A job's snapshot; a dry run has taken its pod."""
    by_node = {report.node: report for report in reports}
    manifest = job_manifest(spec, status, **metadata)
    snapshot = job_snapshot(manifest, pods, by_node, IMAGE, START_DEADLINE_SECONDS, refusal)
    return replace(snapshot, wait=wait, listening=LISTENING, trial=trial)


def riding(spec: dict[str, Any] | None = None, engine: EngineAddress | None = None, **parts: Any) -> JobSnapshot:
    """A job with a seat in the engine of device cpu1."""
    status = {**placed(), "assignment": {**assignment(), "mode": "CoServe"}, **parts.pop("status", {})}
    return replace(job(spec, status, **parts), engine=engine)


def running(attempt: int = 1, assignment_id: str = "a1", **values: Any) -> PodView:
    """A pod whose worker runs."""
    defaults: dict[str, Any] = {"phase": "Running", "started_at": NOW - 60, "node": NODE}
    return pod(attempt, assignment_id, **{**defaults, **values})


def ended(attempt: int = 1, exit_code: int = 0, assignment_id: str = "a1", **values: Any) -> PodView:
    """A pod whose worker ended."""
    defaults: dict[str, Any] = {
        "phase": "Failed" if exit_code else "Succeeded",
        "exit_code": exit_code,
        "end_reason": "Error" if exit_code else "Completed",
        "started_at": NOW - 60,
        "finished_at": NOW - 1,
        "node": NODE,
    }
    return pod(attempt, assignment_id, **{**defaults, **values})


def pod(attempt: int = 1, assignment_id: str = "a1", **values: Any) -> PodView:
    """A pod of an attempt; pending by default."""
    return PodView(name=f"job-{attempt}", uid=f"p{attempt}", attempt=attempt, assignment=assignment_id, **values)


def quantiles(value: float) -> dict[str, Any]:
    """A latency whose quantiles are all the same."""
    return dict.fromkeys(("p50", "p90", "p95", "p99"), value)


def requests(
    ttft: Mapping[float, int], tpot: Mapping[float, int] | None = None, *, offline: bool = False, seconds: int = 600
) -> dict[str, Any]:
    """Requests by latency in seconds: of the last ten minutes, without offline work, unless told otherwise."""
    told = [
        None if counts is None else LatencyCounts.of({cell_of(latency): number for latency, number in counts.items()})
        for counts in (ttft, tpot)
    ]
    return RequestCounts(offline=offline, seconds=seconds, ttft=told[0], tpot=told[1]).to_wire()


def device(id_: str = "cpu1", **values: Any) -> dict[str, Any]:
    """A device of a report."""
    return {
        "id": id_,
        "type": "cpu",
        "memoryBytes": 8 << 30,
        "harvestable": True,
        "gateOpen": True,
        "idleFraction": 0.8,
        "harvestedFraction": 0.6,
        "preemptions": 3,
        **values,
    }


def tenant(pod_name: str = "job-1", job_name: str = "job", **values: Any) -> dict[str, Any]:
    """An offline tenant of a device."""
    return {"pod": f"{NAMESPACE}/{pod_name}", "job": job_name, "attached": True, **values}


def online(service: str = "chat", **values: Any) -> dict[str, Any]:
    """The online tenant of a device."""
    pod_name = f"{service}-abc"
    return {
        "pod": f"{NAMESPACE}/{pod_name}",
        "service": service,
        "attached": True,
        **values,
    }


def report_manifest(*devices: dict[str, Any], node: str = NODE, time: float = NOW) -> dict[str, Any]:
    """A NodeHarvest."""
    return {
        "apiVersion": "rowen.dev/v1alpha1",
        "kind": "NodeHarvest",
        "metadata": {"name": node, "uid": f"uid-of-{node}", "resourceVersion": "1"},
        "spec": {},
        "status": {"updateTime": rfc3339(time), "backend": "cpu", "devices": list(devices)},
    }


def report(*devices: dict[str, Any], node: str = NODE, time: float = NOW) -> Report:
    """A node's report."""
    return replace(read_report(report_manifest(*devices, node=node, time=time)), heard=time)


def p99(
    beside: tuple[int, int] = (0, 0), without: tuple[int, int] = (0, 0), past: tuple[int, int] = (0, 0)
) -> Objective:
    """Late requests for their first token, and all: beside offline work, without, and in the past without."""
    return Objective("ttft", 99, 0.5, Proportion(*beside), Proportion(*without), Proportion(*past))
