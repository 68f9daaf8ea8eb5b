"""What is known of one OnlineService at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.names import SERVICE_LABEL
from rowen.crds.service.online_service import OnlineServiceSpec, OnlineServiceStatus
from rowen.operator.decision import Manifest, Refusal
from rowen.operator.pods.owners import controller_of
from rowen.operator.pods.view import PodView, Problem, requests_device


@dataclass(frozen=True)
class WorkloadView:
    """A Deployment or StatefulSet as a policy sees it."""

    manifest: Manifest
    """As the API server returns it."""
    owner_uid: str | None
    """uid of the Rowen object that controls it, if any."""
    desired: int
    replicas: int
    ready: int
    selector: str
    """Label selector in its text form."""
    requests_device: bool
    """Whether a container of its pods asks for `rowen.dev/online`."""
    service: str | None
    """Value of the label `rowen.dev/service` in its pods' template."""
    replica_failure: Problem | None
    """Why pods of it cannot be made: quota, an admission policy."""


@dataclass(frozen=True)
class ServiceSnapshot:
    """An OnlineService with its workload, its pods and its devices."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: OnlineServiceSpec
    status: OnlineServiceStatus
    runtime_image: str
    deleting: bool = False
    workload: WorkloadView | None = None
    """The Deployment of its name, or the adopted workload."""
    cluster_service: Manifest | None = None
    """The Service of its name."""
    pods: tuple[PodView, ...] = ()
    """Pods that Rowen runs for it."""
    devices: tuple[DeviceHarvest, ...] = ()
    """Devices that its pods hold, from fresh reports."""
    refusal: Refusal | None = None
    """The API server's answer to the children that this decision asked for a moment ago."""


def workload_view(manifest: Mapping[str, Any]) -> WorkloadView:
    """Reads a Deployment or StatefulSet."""
    spec, status = manifest["spec"], manifest.get("status") or {}
    template = spec["template"]
    owner = controller_of(manifest)
    return WorkloadView(
        manifest=manifest,
        owner_uid=owner[2] if owner else None,
        desired=spec.get("replicas", 1),
        replicas=status.get("replicas") or 0,
        ready=status.get("readyReplicas") or 0,
        selector=selector_text(spec.get("selector") or {}),
        requests_device=any(requests_device(container) for container in template["spec"].get("containers") or ()),
        service=((template.get("metadata") or {}).get("labels") or {}).get(SERVICE_LABEL),
        replica_failure=_replica_failure(status),
    )


def _replica_failure(status: Mapping[str, Any]) -> Problem | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Problem(condition.get("reason") or "FailedCreate", condition.get("message") or "")
    return None


def selector_text(selector: Mapping[str, Any]) -> str:
    """A LabelSelector as kubectl and autoscalers write it."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression["key"], expression["operator"], ",".join(expression.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(forms.get(operator, f"!{key}"))
    return ",".join(parts)


def service_snapshot(
    service: Mapping[str, Any],
    *,
    workload: Mapping[str, Any] | None,
    cluster_service: Mapping[str, Any] | None,
    pods: Sequence[PodView],
    devices: Sequence[DeviceHarvest],
    runtime_image: str,
    refusal: Refusal | None = None,
) -> ServiceSnapshot:
    """Reads an OnlineService as the API server returns it. Raises `pydantic.ValidationError`."""
    metadata = service["metadata"]
    return ServiceSnapshot(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        deleting="deletionTimestamp" in metadata,
        spec=OnlineServiceSpec.from_wire(service["spec"]),
        status=OnlineServiceStatus.from_wire(service.get("status") or {}),
        runtime_image=runtime_image,
        workload=workload_view(workload) if workload else None,
        cluster_service=cluster_service,
        pods=tuple(sorted(pods, key=lambda pod: pod.name)),
        devices=tuple(devices),
        refusal=refusal,
    )
