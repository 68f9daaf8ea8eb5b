"""What the scheduler takes from each Kubernetes object; parsing only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from rowen.crds import names
from rowen.crds.base import quantity_bytes
from rowen.crds.common import holds, is_true
from rowen.crds.faults import faults
from rowen.crds.harvest.busy import BusyCells
from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestSpec, NodeHarvestStatus
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import SPATIAL, Assignment, OfflineJobStatus
from rowen.crds.pod.container_memory import memory_of_containers
from rowen.crds.pod.pod_overlay import user_template
from rowen.crds.pod.volume_claims import claim_names
from rowen.crds.service.online_service import HarvestLevel, OnlineServiceSpec, stored_level
from rowen.crds.service.served import served_digest
from rowen.kube.timestamps import unix_or_none, unix_seconds
from rowen.scheduler.model.idle import IdleLevel, IdleWindow, bursts, idle_level
from rowen.scheduler.model.mode import shares_devices
from rowen.scheduler.model.rider import Served, rider_of, served_by
from rowen.scheduler.model.workload import memory_need, pool_bytes, workload_class
from rowen.scheduler.placement.constraints import Taint, constraints_of
from rowen.scheduler.placement.spread_rules import labels_of, spread_of
from rowen.scheduler.snapshot import JobView, Placement

_MOST_LETTERS = 512
_MOST_CLAIMS = 64
"""Of one pod; others are left to kube-scheduler."""
_LEAST_SECONDS = 1.0
"""What a report's window counts as at least, however little of it an engine was there."""

Raw = Mapping[str, Any]
"""A Kubernetes object as it comes from the API server."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A Node."""

    name: str
    ready: bool
    schedulable: bool
    slots: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A Pod that has been bound to a node."""

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    memory: int | None
    """Bytes that all containers have for themselves; None when one of them declares none."""
    most_memory: int | None
    """Bytes that all containers may have at most, with their part of the device's pool; None likewise."""
    harvest_slots: int
    ended: bool
    running: bool
    ready: float | None = None
    """Since when it answers, as the kubelet finds, Unix seconds; None while it does not."""
    gone_by: float | None = None
    """When its grace period ends, Unix seconds; None while it is not being deleted."""
    online_devices: int = 0
    """Devices that it has as an engine."""
    seats: int = 0
    """Seats that it has in engines."""

    @property
    def managed(self) -> bool:
        """Whether the operator made it, or what made it."""
        return self.labels.get(names.MANAGED_BY_LABEL) == names.MANAGER

    @property
    def holds(self) -> bool:
        """Whether it is offline work's."""
        return self.harvest_slots > 0 or self.seats > 0


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """An OnlineService."""

    namespace: str
    name: str
    harvest: bool
    level: HarvestLevel = "Full"
    """What the SLO guard lets be harvested."""
    served: Served | None = None
    """What jobs can ride along with; None where none rides."""
    served_digest: str = ""
    """What its pods say that serve that; while they are replaced, some say something else."""
    shares: bool = False
    """Whether offline work goes on beside its requests."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device of a report, with when it was busy and how idle it is going to be."""

    report: DeviceHarvest
    busy: BusyCells | None
    """None: not known."""
    idles: tuple[IdleWindow, ...]
    idle: IdleLevel
    available: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Bytes of the pool that offline work could have, ascending: unpacked once for each report."""

    def __post_init__(self) -> None:
        """Unpacks what the report tells of memory."""
        object.__setattr__(self, "available", tuple(sorted(self.report.available_bytes)))


@dataclass(frozen=True, slots=True)
class HarvestFacts:
    """A NodeHarvest."""

    node: str
    reported: float | None
    window: float
    devices: tuple[DeviceFacts, ...]


def node_facts(raw: Raw) -> NodeFacts:
    """Reads a Node."""
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    return NodeFacts(
        name=meta["name"],
        ready=holds(status.get("conditions", []), "Ready"),
        schedulable=not spec.get("unschedulable", False) and "deletionTimestamp" not in meta,
        slots=int(status.get("allocatable", {}).get(names.HARVEST_RESOURCE, "0")),
        labels=meta.get("labels") or {},
        taints=tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
    )


def pod_facts(raw: Raw) -> PodFacts | None:
    """Reads a Pod; None while it is not bound."""
    spec, meta = raw["spec"], raw["metadata"]
    if not spec.get("nodeName"):
        return None
    status = raw.get("status", {})
    phase = status.get("phase", "")
    amounts = [_amounts(container) for container in spec["containers"]]
    memories = memory_of_containers(spec)
    return PodFacts(
        namespace=meta["namespace"],
        name=meta["name"],
        node=spec["nodeName"],
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        memory=_sum(memory.own for memory in memories),
        most_memory=_sum(memory.most for memory in memories),
        harvest_slots=sum(int(amount.get(names.HARVEST_RESOURCE, "0")) for amount in amounts),
        seats=sum(int(amount.get(names.RIDE_RESOURCE, "0")) for amount in amounts),
        online_devices=sum(int(amount.get(names.ONLINE_RESOURCE, "0")) for amount in amounts),
        ended=phase in ("Succeeded", "Failed"),
        running=phase == "Running",
        ready=_ready(status.get("conditions") or ()),
        gone_by=unix_seconds(meta["deletionTimestamp"]) if "deletionTimestamp" in meta else None,
    )


def _ready(conditions: Iterable[Raw]) -> float | None:
    for condition in conditions:
        if (condition["type"], condition["status"]) == ("Ready", "True"):
            return unix_or_none(condition.get("lastTransitionTime")) or 0.0
    return None


def service_facts(raw: Raw) -> ServiceFacts:
    """Reads an OnlineService. Raises `pydantic.ValidationError`. One that is being deleted is not harvested."""
    meta, spec = raw["metadata"], OnlineServiceSpec.from_wire(raw["spec"])
    harvest = spec.harvest.enabled and "deletionTimestamp" not in meta
    served = served_by(spec, meta["namespace"])
    digest = served_digest(spec.engine) if spec.engine else ""
    shares = shares_devices(spec)
    return ServiceFacts(meta["namespace"], meta["name"], harvest, stored_level(raw), served, digest, shares)


def harvest_facts(raw: Raw) -> HarvestFacts:
    """Reads a NodeHarvest. Raises `pydantic.ValidationError`."""
    window = float(NodeHarvestSpec.model_validate(raw.get("spec") or {}).window_seconds)
    status = NodeHarvestStatus.from_wire(raw.get("status") or {})
    reported = unix_seconds(status.update_time) if status.update_time else None
    devices = tuple(_device_facts(device, _busy(status, device), window) for device in status.devices)
    return HarvestFacts(raw["metadata"]["name"], reported, window, devices)


def _device_facts(device: DeviceHarvest, busy: BusyCells | None, window: float) -> DeviceFacts:
    idles = tuple(IdleWindow(idle.seconds, idle.fraction) for idle in device.idles)
    covered = window if device.covered_seconds is None else min(window, max(_LEAST_SECONDS, device.covered_seconds))
    return DeviceFacts(device, busy, idles, idle_level(IdleWindow(covered, device.idle_fraction), bursts(busy), idles))


def _busy(status: NodeHarvestStatus, device: DeviceHarvest) -> BusyCells | None:
    """None where the report does not say, or not so that it could be read: that concerns lockstep alone."""
    try:
        return status.busy_cells(device)
    except ValueError:
        return None


def new_job(spec: OfflineJobSpec, uid: str, namespace: str, name: str, created: float) -> JobView:
    """A job as its spec asks for it, without any status. `created`: Unix seconds."""
    template = user_template(spec)
    return JobView(
        uid=uid,
        namespace=namespace,
        name=name,
        workload=workload_class(spec, namespace),
        memory=quantity_bytes(spec.memory),
        pool=pool_bytes(spec),
        need=memory_need(spec),
        solo=spec.profile.tokens_per_second if spec.profile else None,
        devices=spec.devices,
        counts_tokens=spec.template is None,
        sla=spec.sla.throughput_fraction if spec.sla else None,
        priority=spec.priority,
        rider=rider_of(spec),
        constraints=constraints_of(template),
        claims=claim_names(spec)[:_MOST_CLAIMS],
        labels=labels_of(template),
        spread=spread_of(template),
        created=created,
        suspended=spec.suspend,
    )


def job_view(raw: Raw) -> JobView | None:
    """Reads an OfflineJob; None when another controller manages it. Raises `pydantic.ValidationError`."""
    meta = raw["metadata"]
    spec = OfflineJobSpec.from_wire(raw["spec"])
    if spec.managed_by not in (None, names.OPERATOR_MANAGER):
        return None
    status = OfflineJobStatus.from_wire(raw.get("status") or {})
    return replace(
        new_job(spec, meta["uid"], meta["namespace"], meta["name"], unix_seconds(meta["creationTimestamp"])),
        version=meta.get("resourceVersion", ""),
        generation=meta.get("generation", 1),
        finished=is_true(status.conditions, "Finished"),
        deleting="deletionTimestamp" in meta,
        placement=_placement(status.assignment) if status.assignment else None,
        status=status,
    )


def read_job(raw: Raw) -> JobView | None:
    """As `job_view`; one with a spec that cannot be read is there, and says why.

    Raises what `job_view` raises where it has a place: what a newer release wrote keeps it.
    """
    try:
        return job_view(raw)
    except (ValidationError, ValueError, TypeError, KeyError, RecursionError) as error:
        spec, status = raw.get("spec"), OfflineJobStatus.from_wire(raw.get("status") or {})
        managed = spec.get("managedBy") if isinstance(spec, dict) else None
        if status.assignment is not None:
            raise
        if managed not in (None, names.OPERATOR_MANAGER) or is_true(status.conditions, "Finished"):
            return None
        meta = raw["metadata"]
        return JobView(
            uid=meta["uid"],
            namespace=meta["namespace"],
            name=meta["name"],
            workload="",
            memory=0,
            version=meta.get("resourceVersion", ""),
            generation=meta.get("generation", 1),
            deleting="deletionTimestamp" in meta,
            status=status,
            unreadable=_unread(error),
        )


def _unread(error: Exception) -> str:
    """The first field that is not understood, and what was expected; a value may be anything, so it is left out."""
    if isinstance(error, ValidationError):
        fault = faults(error)[0]
        return f"{f'spec.{fault.field}' if fault.field else 'spec'}: {fault.words}"[:_MOST_LETTERS]
    return "spec: it is nested too deeply" if isinstance(error, RecursionError) else f"spec: {error}"[:_MOST_LETTERS]


def _placement(assignment: Assignment) -> Placement:
    return Placement(
        id=assignment.id,
        node=assignment.node,
        devices=tuple(assignment.devices),
        predicted=assignment.predicted_fraction,
        time=unix_seconds(assignment.time),
        renewed=unix_seconds(assignment.lease.renew_time or assignment.time),
        duration=assignment.lease.duration_seconds,
        tenants=assignment.tenants,
        rides=assignment.rides,
        shares=assignment.mode == SPATIAL,
    )


def _amounts(container: Raw) -> dict[str, str]:
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _sum(memories: Iterable[int | None]) -> int | None:
    total = 0
    for memory in memories:
        if memory is None:
            return None
        total += memory
    return total
