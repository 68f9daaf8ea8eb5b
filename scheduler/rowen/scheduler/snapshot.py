"""The world as one pass of the scheduler sees it: frozen, without any Kubernetes client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowen.crds.offline_job import OfflineJobStatus
from rowen.scheduler.alignment import Span
from rowen.scheduler.constraints import Constraints, Taint
from rowen.scheduler.hearing import Listening

JobKey = str
"""UID of an OfflineJob."""
DeviceKey = tuple[str, str]
"""Node and device id."""


@dataclass(frozen=True, slots=True)
class TenantView:
    """An offline pod on a device, as its node reports it."""

    namespace: str
    pod: str
    tokens: int = 0
    granted: float = 0.0
    """Seconds for which it could run so far."""
    attached: bool = True
    """Whether a process of it waits on the gate: a pod whose image is still pulled holds its device too."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device, as its node reports it."""

    node: str
    id: str
    type: str
    memory: int
    """Bytes that its tenants share."""
    idle: float
    """Fraction of the window in which offline work may run."""
    busy: tuple[Span, ...] = ()
    """Merged busy intervals within the window."""
    online_memory: int | None = 0
    """Bytes that the online pod may have at most, as no job's own memory is taken back for it; None: not known."""
    service: str = ""
    """Namespace and name of the engine's OnlineService, for people; empty where it has none."""
    attached: bool = True
    """Whether the online engine is there and attached."""
    refusal: str = ""
    """Why the owner does not offer it; empty when it is offered."""
    tenants: tuple[TenantView, ...] = ()

    @property
    def key(self) -> DeviceKey:
        """Node and id."""
        return self.node, self.id

    @property
    def room(self) -> int:
        """Bytes beside all that the online pod may have: what jobs have for themselves at most, below 0 for none.

        0 where it is not known what the online pod may have.
        """
        return 0 if self.online_memory is None else self.memory - self.online_memory


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with the last report of its agent."""

    name: str
    ready: bool = True
    schedulable: bool = True
    slots: int = 0
    """Harvest slots that the node has: allocatable `rowen.dev/harvest`."""
    reported: float | None = None
    """When the report was made by the node's own clock, Unix seconds; None when there is none."""
    heard: float | None = None
    """When the report was new to the scheduler, Unix seconds; None when there is none."""
    steady: float = float("-inf")
    """Since when reports have followed one another, Unix seconds."""
    window: float = 60.0
    """Seconds that the report covers."""
    devices: tuple[DeviceView, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    def device(self, id_: str) -> DeviceView | None:
        """The device of that id, or None."""
        return next((device for device in self.devices if device.id == id_), None)

    def age(self, now: float) -> float:
        """Seconds since the node was heard; infinite without a report."""
        return float("inf") if self.heard is None else max(0.0, now - self.heard)


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that holds harvest slots on a node and has not ended."""

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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job may run: the assignment in its status."""

    id: str
    node: str
    devices: tuple[str, ...]
    predicted: float
    time: float
    renewed: float
    duration: float


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
    devices: int = 1
    counts_tokens: bool = True
    """Whether its worker is known to report tokens; a template's may or may not."""
    sla: float | None = None
    priority: int = 0
    constraints: Constraints = field(default_factory=Constraints)
    """Nodes that its pod can run on."""
    created: float = 0.0
    generation: int = 1
    suspended: bool = False
    finished: bool = False
    deleting: bool = False
    placement: Placement | None = None
    status: OfflineJobStatus = field(default_factory=OfflineJobStatus)

    @property
    def label(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def order(self) -> tuple[int, float, str, str]:
        """Place in the queue: priority, then age, then name."""
        return -self.priority, self.created, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one pass decides upon."""

    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    jobs: Mapping[JobKey, JobView] = field(default_factory=dict)
    pods: tuple[PodView, ...] = ()
    listening: Listening = field(default_factory=Listening)
    """When the nodes could be heard."""
