"""OnlineService: a latency-critical LLM service whose idle device time may be harvested."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, computed_field

from rowen.crds.base import (
    ApiModel,
    DurationString,
    Name,
    Quantity,
    ReadModel,
    Timestamp,
    duration_seconds,
    exactly_one,
    memory_limit_rule,
    rules,
)
from rowen.crds.common import Conditions
from rowen.crds.job.place import ModelSource
from rowen.crds.pod.pod_template import EngineTemplate
from rowen.crds.service.engine_args import (
    CO_SERVE_MESSAGE,
    CO_SERVE_PATTERN,
    ELASTIC_MESSAGE,
    ELASTIC_PATTERN,
)

MOST_DEVICES = 16
"""On which one engine may be."""


def _elastic_args_rule() -> tuple[str, str]:
    """A CEL rule: the engine's arguments do not contradict a `memoryLimit`."""
    asked = "has(self.memoryLimit) && quantity(self.memoryLimit).compareTo(quantity(self.memory)) > 0"
    return f"!({asked}) || !self.args.exists(arg, arg.matches('{ELASTIC_PATTERN}'))", ELASTIC_MESSAGE


class Engine(ApiModel):
    """An inference engine that Rowen runs: a Deployment and a Service of the OnlineService's name."""

    type: Literal["vLLM"] = "vLLM"
    """Engine to run."""
    model: ModelSource
    """Model to serve; it is served under the OnlineService's name."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Container image; the operator's runtime image where absent."""
    args: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=64)] = []
    """Further arguments of the engine's API server."""
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Pods; each takes `devicesPerReplica` devices."""
    devices_per_replica: Annotated[int, Field(ge=1, le=MOST_DEVICES)] = 1
    """Devices of one replica, all of one node: one request closes the gates of all of them. How the engine spreads over
    them, as by `--tensor-parallel-size`, is said in `args`."""
    memory: Quantity = "4Gi"
    """Memory that one replica has for itself, in equal parts on its devices; without a `memoryLimit` all that it may
    have."""
    memory_limit: Quantity | None = None
    """Most memory of one replica, which has one device then. What lies above `memory` is for its key-value cache, out
    of the device's pool: it comes as it is needed, and offline work has it meanwhile."""
    pod_template: EngineTemplate | None = None
    """What is added to the pods; their container is `engine`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            memory_limit_rule(),
            _elastic_args_rule(),
            (
                "!has(self.memoryLimit) || self.devicesPerReplica == 1",
                "memoryLimit goes with one device: devicesPerReplica must be 1",
            ),
        )
    )


class WorkloadRef(ApiModel):
    """A Deployment or StatefulSet of the same namespace that runs the engine already.

    Rowen puts the label `rowen.dev/service` with the OnlineService's name on its pods; its template may have it.
    """

    api_version: Literal["apps/v1"] = "apps/v1"
    """API version of the workload."""
    kind: Literal["Deployment", "StatefulSet"]
    """Kind of the workload."""
    name: Name
    """Name of the workload."""


class LatencyTarget(ApiModel):
    """A percentile of a latency that has to stay below a target."""

    percentile: Literal[50, 90, 95, 99] = 99
    """Percentile that is compared."""
    target: DurationString
    """Upper bound, e.g. `500ms`."""


class Slo(ApiModel):
    """The service's latency objective."""

    ttft: LatencyTarget
    """Time to first token."""
    tpot: LatencyTarget
    """Time per output token after the first."""

    def without_time(self) -> str:
        """The target that no step keeps, of a service that was stored before such were refused; empty if none."""
        targets = {"slo.ttft.target": self.ttft.target, "slo.tpot.target": self.tpot.target}
        return next((name for name, target in targets.items() if duration_seconds(target) <= 0), "")


class HarvestMemory(ApiModel):
    """How much memory a replica keeps mapped ahead of its need, where memory changes its owner."""

    pressure_threshold: Annotated[float, Field(ge=0.5, le=1)] = 0.9
    """Part of the mapped memory in use from which more is mapped ahead."""
    target_reclaims_per_hour: Annotated[int, Field(ge=1, le=600)] = 12
    """How often memory may be taken from offline work, per replica; fewer keep more memory for the service."""


HarvestMode = Literal["Preempt", "CoServe", "Spatial"]
"""How offline jobs run beside a service."""


class CoServe(ApiModel):
    """What jobs that ride in the engine may take of it."""

    memory: Quantity = "2Gi"
    """Memory of each replica for all that ride in it, together; it comes on top of the engine's `memory`."""
    defer_prefills: bool = False
    """Let prompts wait while fine-tuning rides, as long as `slo.ttft` allows, so that several are computed in one step:
    more may ride, and first tokens come later."""


class Harvest(ApiModel):
    """Whether and how offline work may run beside this service, and what memory it leaves to the service."""

    enabled: bool = True
    """Let offline jobs run on the service's devices, in whichever mode."""
    mode: HarvestMode = "Preempt"
    """`Preempt`: jobs run on the service's devices while it is idle. `CoServe`: the engine itself computes jobs of its
    namespace whose model is the one that it serves, busy or idle, as far as `slo` allows; other jobs as before.
    `Spatial`: jobs run as with `Preempt`, and beside requests on as large a share of the device as `slo` allows."""
    co_serve: CoServe = CoServe()
    """For mode `CoServe`."""
    memory: HarvestMemory = HarvestMemory()
    """Memory ahead of need."""


def _mode_rules() -> tuple[tuple[str, str], ...]:
    """CEL rules: what the modes in which offline work goes on beside requests need of the service."""
    return (
        *_beside_requests_rules("CoServe"),
        (
            f"{_other_than('CoServe')} || !has(self.engine) || !has(self.engine.args)"
            f" || !self.engine.args.exists(arg, arg.matches('{CO_SERVE_PATTERN}'))",
            CO_SERVE_MESSAGE,
        ),
        *_beside_requests_rules("Spatial"),
    )


def _beside_requests_rules(mode: HarvestMode) -> tuple[tuple[str, str], ...]:
    """An engine that is told the objective, one device that it steers, and time to give away."""
    other = _other_than(mode)
    return (
        (
            f"{other} || has(self.engine)",
            f"harvest.mode {mode} needs an engine that Rowen runs: engine, not workloadRef",
        ),
        (
            f"{other} || !has(self.engine) || self.engine.devicesPerReplica == 1",
            f"harvest.mode {mode} goes with one device: engine.devicesPerReplica must be 1",
        ),
        (
            f"{other} || (self.slo.ttft.target.matches('[1-9]') && self.slo.tpot.target.matches('[1-9]'))",
            f"harvest.mode {mode} needs time: slo.ttft.target and slo.tpot.target must be above 0",
        ),
    )


def _other_than(mode: HarvestMode) -> str:
    return f"!has(self.harvest) || !has(self.harvest.mode) || self.harvest.mode != '{mode}'"


class OnlineServiceSpec(ApiModel):
    """What the user asks for."""

    engine: Engine | None = None
    """Engine that Rowen runs."""
    workload_ref: WorkloadRef | None = None
    """Workload that runs already and is adopted; Rowen does not change it."""
    slo: Slo
    """Latency objective that harvesting must not break."""
    harvest: Harvest = Harvest()
    """Harvesting of idle device time."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(["engine", "workloadRef"]),
            (
                "has(self.engine) == has(oldSelf.engine)",
                "engine and workloadRef cannot be exchanged; make a new OnlineService",
            ),
            *_mode_rules(),
        )
    )


class ObservedLatency(ReadModel):
    """A latency as measured over the report window."""

    percentile: int
    """Percentile of the objective."""
    value_seconds: float
    """The percentile's value, in seconds."""
    target_seconds: float
    """The objective, in seconds."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def display(self) -> str:
        """The value with its unit, for people."""
        return f"{self.value_seconds:.2f}s" if self.value_seconds >= 1 else f"{self.value_seconds * 1000:.1f}ms"


HarvestLevel = Literal["Full", "Reduced", "Stopped"]
"""What the SLO guard lets be harvested: everything, one job at a time on each device, nothing."""


class HarvestGuard(ReadModel):
    """What the SLO guard has done about harvesting, since the service missed its objective beside offline work."""

    level: Annotated[str, Field(max_length=63)]
    """Full, Reduced (one job at a time on each device) or Stopped. Any other word counts as Reduced."""
    since: Timestamp
    """When the level last changed."""
    steps: int = 0
    """Steps down so far; each doubles the time until the next step up. Forgotten after half a day at Full. With none
    at Full, a reason was noted, and is decided on when the next requests are known."""
    cause: Annotated[str, Field(max_length=63)] = "Harvest"
    """Of the last step down. Harvest: the objective is missed beside offline work, and better kept without. Untested:
    it is missed beside offline work, and too few requests were served without to compare. Service: it was blamed on
    harvesting, and is missed without offline work too. Again: blamed on it right after that."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """The figures behind the last step."""
    mode: Annotated[str, Field(max_length=63)] = ""
    """`spec.harvest.mode` at the last step, of which this tells; with another one it begins anew. Empty: not told."""


def harvest_level(word: object) -> HarvestLevel:
    """The level that a status tells; None is Full.

    One that is not known, of another version, is between the others: it neither ends all offline work nor lets more of
    it come.
    """
    if word is None or word == "Full":
        return "Full"
    return "Stopped" if word == "Stopped" else "Reduced"


def stored_level(service: Mapping[str, Any]) -> HarvestLevel:
    """The level in the status of an OnlineService as the API server returns it, whatever stands there."""
    guard = (service.get("status") or {}).get("harvestGuard")
    return harvest_level(guard.get("level") if isinstance(guard, Mapping) else None)


class OnlineServiceStatus(ReadModel):
    """What Rowen observes."""

    observed_generation: int | None = None
    """Generation that the status was computed from."""
    conditions: Conditions = []
    """Ready, SLOMet, HarvestEnabled, Degraded."""
    replicas: int | None = None
    """Pods that exist."""
    ready_replicas: int | None = None
    """Pods that are Ready."""
    selector: Annotated[str, Field(max_length=1024)] | None = None
    """Label selector of the pods, for autoscalers."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """URL of the service inside the cluster."""
    model: Annotated[str, Field(max_length=512)] | None = None
    """Model, for people."""
    ttft: ObservedLatency | None = None
    """Observed time to first token."""
    tpot: ObservedLatency | None = None
    """Observed time per output token."""
    harvest_guard: HarvestGuard | None = None
    """The SLO guard; absent while there was no reason to reduce harvesting."""
    harvested_fraction: float | None = None
    """Fraction of the devices' time that offline work ran behind the gate (no riders), over the report window."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def harvested(self) -> str | None:
        """Harvested fraction in percent, for people."""
        return None if self.harvested_fraction is None else f"{self.harvested_fraction:.0%}"
