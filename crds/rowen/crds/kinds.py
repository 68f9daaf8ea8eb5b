"""The kinds of the API: their names, scope, columns and rules that need an object's metadata."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from rowen.crds.base import rules
from rowen.crds.harvest.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.crds.service.online_service import OnlineServiceSpec, OnlineServiceStatus


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; `wide` ones are shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True)
class Kind:
    """A kind of the API group."""

    name: str
    plural: str
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    namespaced: bool = True
    scale: Scale | None = None
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def singular(self) -> str:
        """Lower-case name of one object."""
        return self.name.lower()

    def validations(self) -> dict[str, Any]:
        """CEL rules over the whole object, as a schema extension."""
        return rules(*self.rules) if self.rules else {}


def _condition(type_: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
# Objects are named in labels of their pods, and a label holds 63 characters.
_LABEL_NAME = ("self.metadata.name.size() <= 63", "metadata.name must have at most 63 characters")

ONLINE_SERVICE = Kind(
    name="OnlineService",
    plural="onlineservices",
    short_name="osvc",
    description="A latency-critical LLM service whose idle device time may be harvested.",
    spec=OnlineServiceSpec,
    status=OnlineServiceStatus,
    scale=Scale(".spec.engine.replicas", ".status.replicas", ".status.selector"),
    rules=(
        _LABEL_NAME,
        (
            "!has(self.spec.engine) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must be a DNS label that begins with a letter, since a Service gets this name",
        ),
    ),
    columns=(
        Column("Model", ".status.model"),
        Column("Replicas", ".status.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("SLO", _condition("SLOMet")),
        Column("TTFT", ".status.ttft.display"),
        Column("TPOT", ".status.tpot.display"),
        Column("Harvested", ".status.harvested"),
        Column("Endpoint", ".status.endpoint", wide=True),
        Column("Harvest", _condition("HarvestEnabled"), wide=True),
        Column("Mode", ".spec.harvest.mode", wide=True),
        Column("Degraded", _condition("Degraded"), wide=True),
        Column("Memory", ".spec.engine.memory", wide=True),
        Column("MemoryLimit", ".spec.engine.memoryLimit", wide=True),
        _AGE,
    ),
)

OFFLINE_JOB = Kind(
    name="OfflineJob",
    plural="offlinejobs",
    short_name="ojob",
    description="Fine-tuning, batch inference or any pod that runs on harvested device time.",
    spec=OfflineJobSpec,
    status=OfflineJobStatus,
    rules=(_LABEL_NAME,),
    columns=(
        Column("Kind", ".status.kind"),
        Column("State", ".status.state"),
        Column("Node", ".status.assignment.node"),
        Column("Progress", ".status.progress.display"),
        Column("SLA", _condition("SLAMet")),
        Column("Mode", ".status.assignment.mode", wide=True),
        Column("Ended", _condition("Finished", "reason"), wide=True),
        Column("Priority", ".spec.priority", "integer", wide=True),
        Column("Memory", ".spec.memory", wide=True),
        Column("MemoryLimit", ".spec.memoryLimit", wide=True),
        Column("Attempts", ".status.attempts", "integer", wide=True),
        Column("Evictions", ".status.evictions", "integer", wide=True),
        Column("Explanation", ".status.explanation.message", wide=True),
        _AGE,
    ),
)

NODE_HARVEST = Kind(
    name="NodeHarvest",
    plural="nodeharvests",
    short_name="nh",
    namespaced=False,
    description="What a node's agent observes of its devices; one per node, named like it.",
    spec=NodeHarvestSpec,
    status=NodeHarvestStatus,
    columns=(
        Column("Devices", ".status.summary.devices", "integer"),
        Column("Harvestable", ".status.summary.harvestable", "integer"),
        Column("Tenants", ".status.summary.tenants", "integer"),
        Column("Idle", ".status.summary.idle"),
        Column("Harvested", ".status.summary.harvested"),
        Column("Lent", ".status.summary.lent"),
        Column("Reported", ".status.updateTime", "date"),
        Column("Backend", ".status.backend", wide=True),
        Column("Memory", ".status.summary.memory", wide=True),
        Column("Pool", ".status.summary.pool", wide=True),
        Column("Preemptions", ".status.summary.preemptions", "integer", wide=True),
        _AGE,
    ),
)

KINDS = (ONLINE_SERVICE, OFFLINE_JOB, NODE_HARVEST)
