"""The world as one pass of the scheduler sees it: frozen, without any Kubernetes client."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.device import DeviceView, EngineView, TenantView
from rowen.scheduler.model.memory import MemoryNeed
from rowen.scheduler.model.mode import mode_of
from rowen.scheduler.model.rider import Rider
from rowen.scheduler.monitor.hearing import Listening
from rowen.scheduler.placement.constraints import Constraints, Taint
from rowen.scheduler.placement.spread_rules import Labels, SpreadRule
from rowen.scheduler.placement.volumes import NO_VOLUMES, Volumes

JobKey = str
"""UID of an OfflineJob."""


PodKey = tuple[str, str]
"""Namespace and name of a pod."""
Tenancy = tuple[DeviceView, TenantView]
"""A pod's entry on a device; each counts the tokens of the whole pod."""


@dataclass(frozen=True)
class NodeView:
    """A node with the last report of its agent.

    What follows from its devices is worked out once, and handed on to later views with the same ones (`keeping`).
    """

    name: str
    ready: bool = True
    schedulable: bool = True
    slots: int = 0
    """Harvest slots that the node has: allocatable `rowen.dev/harvest`."""
    reported: float | None = None
    """When the report was made by the node's own clock, Unix seconds; None when there is none."""
    told: float | None = None
    """When the report was new to the scheduler, Unix seconds; None when there is none."""
    heard: float | None = None
    """When the node's heartbeat was new to the scheduler, Unix seconds; None when there is none."""
    steady: float = float("-inf")
    """Since when heartbeats have followed one another, Unix seconds."""
    window: float = 60.0
    """Seconds that the report covers."""
    devices: tuple[DeviceView, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, DeviceView]:
        """The devices, in the order of their ids; of two with the same id the last."""
        return {device.id: device for device in sorted(self.devices, key=attrgetter("id"))}

    @property
    def slots_each(self) -> int:
        """Most claims that one device takes: its part of the slots, rounded up."""
        return -(-self.slots // max(1, len(self.devices)))

    @cached_property
    def figures(self) -> bytes:
        """Of its devices, in the order of their ids (`DeviceView.pack`)."""
        return b"".join([device.pack() for device in self.by_id.values()])

    def trace(self, id_: str) -> NDArray[np.float64]:
        """The device's memory over time (`DeviceView.available`); read when it is asked for first."""
        if id_ not in self._traces:
            self._traces[id_] = np.array(self.by_id[id_].available, np.float64)
        return self._traces[id_]

    @cached_property
    def _traces(self) -> dict[str, NDArray[np.float64]]:
        return {}

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(self.by_id)

    def id_at(self, place: int) -> str:
        """The id at that place in their order."""
        return self._ids[place]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Its devices' types."""
        return tuple([view.type for view in self.by_id.values()])

    @cached_property
    def engines(self) -> tuple[tuple[int, EngineView], ...]:
        """The engines of its devices in which jobs ride, each with its device's place in the order of the ids."""
        found = enumerate(self.by_id.values())
        return tuple((at, view.engine) for at, view in found if view.engine is not None)

    @cached_property
    def lent(self) -> dict[tuple[str, MemoryNeed, int, int], float]:
        """M of a need on one of its devices, so many tenants in all, less so many bytes: filled in as it is asked."""
        return {}

    @cached_property
    def alignments(self) -> dict[tuple[str, str], float]:
        """A of two of its devices, by their ids: filled in as it is worked out."""
        return {}

    @cached_property
    def lockstep(self) -> dict[tuple[str, ...], float]:
        """I of several of its devices in lockstep, by their ids: filled in as it is worked out."""
        return {}

    @cached_property
    def tenancies(self) -> Mapping[PodKey, tuple[Tenancy, ...]]:
        """The offline pods on its devices."""
        found: dict[PodKey, tuple[Tenancy, ...]] = {}
        for device in self.devices:
            for tenant in device.tenants:
                key = tenant.namespace, tenant.pod
                found[key] = (*found.get(key, ()), (device, tenant))
        return found

    def packed(self) -> "NodeView":
        """This view, with its `figures` worked out: they are read pass after pass."""
        _ = self.figures
        return self

    def keeping(self, old: "NodeView") -> "NodeView":
        """This view, with all that has been worked out of the `old` one's devices where they are the same."""
        if old.devices == self.devices:
            self.__dict__.update({name: kept for name, kept in old.__dict__.items() if name not in self.__dict__})
        return self

    def device(self, id_: str) -> DeviceView | None:
        """The device of that id, or None."""
        return self.by_id.get(id_)

    def age(self, now: float) -> float:
        """Seconds since the node was heard; infinite where it never was."""
        return float("inf") if self.heard is None else max(0.0, now - self.heard)


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that holds harvest slots on a node, or a seat in an engine, and has not ended."""

    namespace: str
    name: str
    node: str
    slots: int
    memory: int
    """Bytes per device."""
    job: JobKey | None = None
    assignment: str | None = None
    devices: tuple[str, ...] = ()
    """Devices that it was meant for."""
    running: bool = False
    gone_by: float | None = None
    """When the grace period of its deletion ends, Unix seconds; None while it is not being deleted."""
    rides: bool = False
    """Whether what it holds is a seat in an engine, and no harvest slot."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job may run: the assignment in its status."""

    id: str
    node: str
    devices: tuple[str, ...]
    predicted: float
    time: float
    renewed: float
    """When its node was heard last, Unix seconds."""
    duration: float
    tenants: int | None = None
    """Jobs on the fullest of its devices, this one among them, that `predicted` was made beside; None: not known."""
    rides: bool = False
    """Whether it is a seat in the device's engine."""
    shares: bool = False
    """Whether each of its devices is shared with the engine's requests."""

    @property
    def mode(self) -> str | None:
        """As an assignment says it."""
        return mode_of(rides=self.rides, shares=self.shares)


@dataclass(frozen=True, slots=True)
class JobView:
    """An OfflineJob, with what the policies need of it."""

    uid: JobKey
    namespace: str
    name: str
    workload: str
    """Key of its workload class."""
    memory: int
    """Bytes per device that are its own: they have to be free."""
    pool: int = 0
    """Bytes that it may have of the device's pool at most; nothing of it has to be free."""
    need: MemoryNeed | None = None
    """What it does with them, as far as its spec tells; None where it may have none."""
    solo: float | None = None
    """Tokens per second alone on a device, where its spec tells."""
    devices: int = 1
    counts_tokens: bool = True
    """Whether its worker is known to report tokens; a template's may or may not."""
    sla: float | None = None
    priority: int = 0
    rider: Rider | None = None
    """In which engines it can be computed; None: in none."""
    constraints: Constraints = field(default_factory=Constraints)
    """Nodes that its pod can run on."""
    claims: tuple[str, ...] = ()
    """PersistentVolumeClaims that its pod mounts, by name."""
    labels: Labels = ()
    """Of its pod, as its template says."""
    spread: tuple[SpreadRule, ...] = ()
    """How it is to lie among others."""
    created: float = 0.0
    version: str = ""
    """The API server's version of the job that this is; a write is refused when it is not the newest."""
    generation: int = 1
    suspended: bool = False
    finished: bool = False
    deleting: bool = False
    placement: Placement | None = None
    status: OfflineJobStatus = field(default_factory=OfflineJobStatus)
    unreadable: str = ""
    """Why nothing else is known of it than that it is there; empty where its spec was read."""

    @property
    def label(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def order(self) -> tuple[int, float, str, str]:
        """Place in the queue: priority, then age, then name."""
        return -self.priority, self.created, self.namespace, self.name

    def within(self, volumes: Volumes) -> "JobView":
        """The job, on the nodes alone on which its volumes can be used."""
        limits = volumes.limits(self.namespace, self.claims)
        return replace(self, constraints=replace(self.constraints, volumes=limits)) if limits else self


@dataclass(frozen=True)
class Snapshot:
    """Everything that one pass decides upon."""

    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    jobs: Mapping[JobKey, JobView] = field(default_factory=dict)
    pods: tuple[PodView, ...] = ()
    listening: Listening = field(default_factory=Listening)
    """When the nodes could be heard."""
    volumes: Volumes = NO_VOLUMES
    """What the jobs keep to already; for others, that somebody asks about."""

    @cached_property
    def pods_by_job(self) -> Mapping[JobKey, list[PodView]]:
        """The pods that hold harvest slots or a seat for a job."""
        found: dict[JobKey, list[PodView]] = {}
        for pod in self.pods:
            if pod.job is not None:
                found.setdefault(pod.job, []).append(pod)
        return found

    @cached_property
    def pods_by_node(self) -> Mapping[str, list[PodView]]:
        """The pods that hold harvest slots or a seat on a node."""
        found: dict[str, list[PodView]] = {}
        for pod in self.pods:
            found.setdefault(pod.node, []).append(pod)
        return found

    @cached_property
    def jobs_by_node(self) -> Mapping[str, list[JobView]]:
        """The jobs that are assigned to a node."""
        found: dict[str, list[JobView]] = {}
        for job in self.jobs.values():
            if job.placement is not None:
                found.setdefault(job.placement.node, []).append(job)
        return found
