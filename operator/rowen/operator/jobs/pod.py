"""The pod of one attempt of an OfflineJob."""

from typing import Any

from rowen.crds.job.memory_share import MemoryShare, job_share
from rowen.crds.job.offline_job_status import Assignment
from rowen.crds.job.place import InputPlace, ModelSource
from rowen.crds.job.secrets import secret_names
from rowen.crds.job.worker import BatchSpec, TuningSpec
from rowen.crds.names import (
    ASSIGNMENT_ANNOTATION,
    ATTEMPT_ENV,
    ATTEMPT_LABEL,
    DEVICES_ANNOTATION,
    ENGINE_POD_ENV,
    ENGINE_URL_ENV,
    HARVEST_RESOURCE,
    JOB_LABEL,
    JOB_SPEC_ENV,
    JOB_UID_ENV,
    JOB_UID_LABEL,
    RIDE_RESOURCE,
    WORKER_CONTAINER,
    WORKER_CPU,
)
from rowen.crds.pod.pod_overlay import overlaid_worker, told_of, user_template
from rowen.crds.pod.template_pod import GRACE_SECONDS, template_pod_spec
from rowen.crds.pod.volume_claims import worker_claims
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.worker_spec import batch_spec, tuning_spec
from rowen.operator.pods.owners import MANAGED_BY, owner_reference
from rowen.operator.pods.security import container_security_context, pod_security_context
from rowen.operator.pods.volumes import claim_volumes, offline_environment

_RIDER_BYTES = 2**30
"""What a worker needs that has no model: its libraries, the adapter with the optimizer's state, a few rows."""
_RIDER_CPU = "10m"
"""Of a contended core a container gets in proportion to its request: this keeps riders behind the engine's."""


def pod_name(job: str, attempt: int) -> str:
    """Name of an attempt's pod."""
    return f"{job}-{attempt}"


def job_pod(snapshot: JobSnapshot, assignment: Assignment | None, attempt: int) -> dict[str, Any]:
    """The pod of an attempt: pinned to the assigned node, left to kube-scheduler to bind.

    Without an assignment it is one to be tried.
    """
    user_metadata = user_template(snapshot.spec).get("metadata") or {}
    labels = {
        JOB_LABEL: snapshot.name,
        JOB_UID_LABEL: snapshot.uid,
        ATTEMPT_LABEL: str(attempt),
        **MANAGED_BY,
    }
    annotations = {}
    if snapshot.spec.template is not None:
        spec = template_pod_spec(snapshot.spec)
    else:
        rides = assignment is not None and assignment.rides
        spec = overlaid_worker(_worker_spec(snapshot, attempt, rides=rides), snapshot.spec)
    if assignment:
        annotations = {ASSIGNMENT_ANNOTATION: assignment.id, DEVICES_ANNOTATION: ",".join(assignment.devices)}
        spec["affinity"] = _pinned(spec.get("affinity") or {}, assignment.node)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(snapshot.name, attempt),
            "namespace": snapshot.namespace,
            "labels": {**(user_metadata.get("labels") or {}), **labels},
            "annotations": {**(user_metadata.get("annotations") or {}), **annotations},
            "ownerReferences": [owner_reference("OfflineJob", snapshot.name, snapshot.uid)],
        },
        "spec": spec,
    }


def told_of_pod(snapshot: JobSnapshot, message: str) -> str:
    """What the API server says of the job's pod, with the user's fields in the place of the pod's."""
    field = "template" if snapshot.spec.template is not None else "podTemplate"
    user = user_template(snapshot.spec).get("spec") or {}
    return told_of(message, f"spec.{field}", job_pod(snapshot, None, 1)["spec"], user)


def _worker_spec(snapshot: JobSnapshot, attempt: int, *, rides: bool) -> dict[str, Any]:
    memory, claims = job_share(snapshot.spec), worker_claims(snapshot.spec)
    volumes, mounts = claim_volumes(claims.read, claims.written, secret_names(snapshot.spec))
    reads: tuple[ModelSource, *tuple[InputPlace | None, ...]]
    if tune := snapshot.spec.fine_tune:
        module, reads = "rowen.runtime.tuning", (tune.base_model, tune.dataset)
        worker: TuningSpec | BatchSpec = tuning_spec(tune, snapshot.name)
    elif batch := snapshot.spec.batch_inference:
        module, reads = "rowen.runtime.batch", (batch.model, batch.input, batch.adapter)
        worker = batch_spec(batch, memory.own_bytes)
    else:
        raise ValueError("the job has no work; the API server refuses such jobs")
    container = {
        "name": WORKER_CONTAINER,
        "image": snapshot.runtime_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", module],
        "env": [
            *offline_environment(*reads),
            *_environment(worker, attempt, snapshot.uid),
            *(_ride_environment(snapshot) if rides else memory.environment),
        ],
        "resources": _ride_resources(memory) if rides else _resources(memory, snapshot.spec.devices),
        "securityContext": container_security_context(),
        # A crash leaves its traceback in the status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security_context(),
        "containers": [container],
        "volumes": volumes,
    }


def _resources(memory: MemoryShare, devices: int) -> dict[str, Any]:
    return {
        "requests": {"cpu": WORKER_CPU, "memory": memory.request},
        "limits": {HARVEST_RESOURCE: str(devices), "memory": memory.limit},
    }


def _ride_resources(memory: MemoryShare) -> dict[str, Any]:
    """A seat in place of a device. The model is the engine's, so little of the job's memory is asked for."""
    return {
        "requests": {"cpu": _RIDER_CPU, "memory": str(min(memory.own_bytes, _RIDER_BYTES))},
        "limits": {RIDE_RESOURCE: "1", "memory": memory.limit},
    }


def _ride_environment(snapshot: JobSnapshot) -> list[dict[str, str]]:
    """Where a batch's rows go; a tuner finds its engine by what the seat brings along."""
    engine = snapshot.engine
    if snapshot.spec.batch_inference is None or engine is None:
        return []
    told = {ENGINE_URL_ENV: engine.url, ENGINE_POD_ENV: engine.pod}
    return [{"name": name, "value": value} for name, value in told.items() if value is not None]


def _environment(worker: TuningSpec | BatchSpec, attempt: int, uid: str) -> list[dict[str, str]]:
    return [
        {"name": JOB_SPEC_ENV, "value": worker.model_dump_json(by_alias=True, exclude_none=True)},
        {"name": ATTEMPT_ENV, "value": str(attempt)},
        {"name": JOB_UID_ENV, "value": uid},
    ]


def _pinned(affinity: dict[str, Any], node: str) -> dict[str, Any]:
    """The affinity with the node required in every alternative, since the alternatives are ORed."""
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), pin]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    return {**affinity, "nodeAffinity": node_affinity}
