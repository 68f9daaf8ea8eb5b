"""OfflineJob: fine-tuning, batch inference or any pod that runs on harvested device time."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from rowen.crds.base import ApiModel, Quantity, exactly_one, memory_limit_rule, rules
from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.fine_tune import FineTune
from rowen.crds.pod.pod_template import WorkerTemplate


class Sla(ApiModel):
    """What the job is promised."""

    throughput_fraction: Annotated[float, Field(gt=0, le=1)]
    """Least throughput, as a fraction of the job's throughput alone on a device."""


class MemoryPoint(ApiModel):
    """How fast a job is with some memory."""

    memory: Quantity
    """Memory of the device's pool, above `spec.memory`."""
    fraction: Annotated[float, Field(ge=0, le=1)]
    """Throughput with so much all the time, over the throughput with all that it wants."""


_RISING = (
    "self.memoryCurve.all(a, self.memoryCurve.all(b,"
    " quantity(a.memory).compareTo(quantity(b.memory)) > 0 || a.fraction <= b.fraction))",
    "memoryCurve must not fall: with more memory a job is not slower",
)


class WorkloadProfile(ApiModel):
    """What is known of the job's speed before Rowen has measured it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$", max_length=63)] | None = None
    """Names the job's workload class in place of the model: jobs of one namespace, kind and shape that give the same
    name are taken to be equally fast. By default a class is what the kind, the model and the shape say."""
    tokens_per_second: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Throughput alone on a device; it counts until a job of the class has been measured."""
    memory_curve: Annotated[list[MemoryPoint], Field(min_length=1, max_length=8)] | None = None
    """Throughput by memory of the pool, straight between the points; in any order. What lies above `memoryLimit` says
    nothing."""
    memory_loss: Annotated[float, Field(ge=0, le=10)] | None = None
    """Throughput that is lost in addition where memory is taken away, for work that is done again: times the mean
    shortfall below all that the job may have of the pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (f"!has(self.memoryCurve) || {_RISING[0]}", _RISING[1]),
            (
                "!has(self.memoryCurve) || self.memoryCurve.exists(point, point.fraction > 0.0)",
                "memoryCurve must have a fraction above 0",
            ),
            ("!has(self.memoryLoss) || has(self.memoryCurve)", "memoryLoss goes with memoryCurve"),
        )
    )


_IMMUTABLE = [
    (
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
        f"{name} is immutable; make a new OfflineJob",
    )
    for name in ("fineTune", "batchInference", "template", "podTemplate", "profile")
]


_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Everything is kept; only what Rowen itself needs is declared.
_POD_TEMPLATE: dict[str, Any] = _ANY | {
    "properties": {
        "spec": _ANY
        | {
            "description": "A PodSpec.",
            "properties": {
                "containers": {
                    "description": "Containers; the first one is the tenant.",
                    "type": "array",
                    "maxItems": 32,
                    "items": _ANY,
                }
            },
        }
    }
}
_HAS_CONTAINER = (
    "!has(self.template) || (has(self.template.spec) && has(self.template.spec.containers)"
    " && self.template.spec.containers.size() > 0)",
    "template.spec.containers must name at least one container",
)


class OfflineJobSpec(ApiModel):
    """What the user asks for."""

    fine_tune: FineTune | None = None
    """Fine-tuning job."""
    batch_inference: BatchInference | None = None
    """Batch inference job."""
    template: Annotated[dict[str, Any] | None, Field(json_schema_extra=_POD_TEMPLATE)] = None
    """A PodTemplateSpec: any pod; its first container becomes the tenant."""
    pod_template: WorkerTemplate | None = None
    """What is added to the pod of fine-tuning and batch inference; its container is `worker`."""
    devices: Annotated[int, Field(ge=1, le=16)] = 1
    """Devices of one node that the job runs on in lockstep."""
    memory: Quantity = "4Gi"
    """Memory per device that is the job's own; without a `memoryLimit` all that it may have."""
    memory_limit: Quantity | None = None
    """Most memory. What lies above `memory` is lent out of the device's pool: the service takes it back when it needs
    it, and what was in it is computed or loaded again."""
    profile: WorkloadProfile | None = None
    """What is known of its speed; measured where absent."""
    sla: Sla | None = None
    """Least throughput; best effort where absent."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Jobs of higher priority are placed first."""
    suspend: bool = False
    """Hold the job: its pod is removed and it waits; finished work is kept."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Controller that manages the job; Rowen leaves it alone unless this is absent or `rowen.dev/operator`."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Failed attempts before the job fails: evictions by scheduler or kubelet and lost nodes do not count, pods that
    the agent killed do."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Longest time from when the job is first seen, or was last resumed, to its end, waiting included; then it fails as
    `DeadlineExceeded`, and finished work is kept. While it is suspended no time passes."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] | None = None
    """Delete the job so long after it finished."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(["fineTune", "batchInference", "template"]),
            _HAS_CONTAINER,
            ("!has(self.podTemplate) || !has(self.template)", "podTemplate goes with fineTune and batchInference"),
            *_IMMUTABLE,
            ("self.devices == oldSelf.devices", "devices is immutable; make a new OfflineJob"),
            ("self.memory == oldSelf.memory", "memory is immutable; make a new OfflineJob"),
            (
                "has(self.memoryLimit) == has(oldSelf.memoryLimit)"
                " && (!has(self.memoryLimit) || self.memoryLimit == oldSelf.memoryLimit)",
                "memoryLimit is immutable; make a new OfflineJob",
            ),
            memory_limit_rule(),
            ("!has(self.memoryLimit) || self.devices == 1", "memoryLimit goes with one device"),
            (
                "!has(self.profile) || !has(self.profile.memoryCurve) || has(self.memoryLimit)",
                "profile.memoryCurve goes with memoryLimit",
            ),
        )
    )
