"""OfflineJob: fine-tuning, batch inference or any pod that runs on harvested device time."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, computed_field

from rowen.crds.base import ApiModel, Quantity, ReadModel, Timestamp, exactly_one, memory_limit_rule, rules
from rowen.crds.common import Conditions, ModelSource, VolumePath


def _apart(field: str, other: str) -> tuple[str, str]:
    """A CEL rule: two fields name different places on volumes. `a//b`, `./a/b` and `a/b/` are one path."""
    parts = "self.{}.path.split('/').filter(part, part != '' && part != '.')"
    rule = f"self.{field}.claimName != self.{other}.claimName || {parts.format(field)} != {parts.format(other)}"
    return rule, f"{field} must not be the same path on the same claim as {other}"


def _apart_from_model(field: str, model: str) -> tuple[str, str]:
    """The same for a model, which may come from elsewhere."""
    rule, message = _apart(field, model)
    return f"!has(self.{model}.claimName) || !has(self.{model}.path) || {rule}", message


class Lora(ApiModel):
    """Low-rank adaptation (PEFT's `LoraConfig`)."""

    rank: Annotated[int, Field(ge=1, le=512)] = 16
    """Rank of the update matrices."""
    alpha: Annotated[int, Field(ge=1, le=1024)] = 32
    """Scaling numerator: updates are scaled by alpha / rank."""
    target_modules: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$", max_length=128)]], Field(min_length=1, max_length=32)
    ] = ["q_proj", "v_proj"]
    """Linear layers that are adapted, by the last part of their name."""


class FineTune(ApiModel):
    """LoRA fine-tuning of a base model on a JSONL dataset."""

    base_model: ModelSource
    """Model to adapt."""
    dataset: VolumePath
    """JSONL file: one object a line with `text`, or with `prompt` and `completion`."""
    output: VolumePath
    """Folder that receives the adapter and, while it runs, the checkpoints."""
    lora: Lora = Lora()
    """Adapter shape."""
    epochs: Annotated[int, Field(ge=1, le=1000)] = 1
    """Passes over the dataset."""
    batch_size: Annotated[int, Field(ge=1, le=1024)] = 4
    """Sequences per optimizer step."""
    sequence_length: Annotated[int, Field(ge=8, le=131072)] = 128
    """Tokens per sequence; longer rows are cut, and counted in the result."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.001
    """Learning rate of AdamW."""
    held_out_fraction: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Part of the dataset that is kept for evaluation."""
    checkpoint_steps: Annotated[int, Field(ge=1, le=100000)] = 10
    """Optimizer steps between two checkpoints."""
    seed: Annotated[int, Field(ge=0, le=2147483647)] = 0
    """Seed of the data order and of the adapter's first weights."""

    model_config = ConfigDict(
        json_schema_extra=rules(_apart("output", "dataset"), _apart_from_model("output", "baseModel"))
    )


class BatchInference(ApiModel):
    """Batch inference over a file in the OpenAI batch format."""

    model: ModelSource
    """Model that answers."""
    input: VolumePath
    """JSONL file of requests: `custom_id`, `method`, `url`, `body`."""
    output: VolumePath
    """JSONL file of results: one line per request, each exactly once."""

    model_config = ConfigDict(json_schema_extra=rules(_apart("output", "input")))


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
    for name in ("fineTune", "batchInference", "template", "profile")
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
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] | None = None
    """Delete the job so long after it finished."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(["fineTune", "batchInference", "template"]),
            _HAS_CONTAINER,
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


class Lease(ReadModel):
    """The node's hold on an assignment; the node's heartbeats renew it: its coordination Lease, not this status."""

    duration_seconds: Annotated[int, Field(ge=1)]
    """Without a heartbeat of the node for so long the assignment is lost."""
    renew_time: Timestamp | None = None
    """When the node had been heard when the assignment was made. Deprecated: it is for readers of the last release."""


class Assignment(ReadModel):
    """Where the job may run."""

    id: Annotated[str, Field(max_length=63)]
    """Identifies this assignment; a new placement gets a new one."""
    node: Annotated[str, Field(max_length=253)]
    """Node."""
    devices: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=16)]
    """Devices of the node."""
    predicted_fraction: float
    """Predicted throughput as a fraction of the throughput alone on a device."""
    tenants: Annotated[int, Field(ge=1)] | None = None
    """Offline jobs, this one among them, on the fullest of its devices: what the prediction was made beside."""
    time: Timestamp
    """When it was made."""
    lease: Lease
    """The node's hold on it."""


class StartFailure(ReadModel):
    """An assignment on which no pod could be started: the scheduler withdraws it and waits before the next."""

    assignment: Annotated[str, Field(max_length=63)]
    """The assignment's id."""
    reason: Annotated[str, Field(max_length=64)]
    """What stood against the pod, in one CamelCase word, e.g. `ImagePullBackOff` or `Unschedulable`."""
    message: Annotated[str, Field(max_length=1024)]
    """The same in a sentence."""
    cause: Literal["Job", "Node", "Cluster"]
    """Whose it is. The job's own counts against backoffLimit; the node's keeps the job off that node for a while;
    what no node can help, such as a quota, keeps it off all of them."""


class Throughput(ReadModel):
    """Tokens per second, predicted and measured."""

    solo_tokens_per_second: float | None = None
    """Alone on a device: the profile of the workload class."""
    predicted_tokens_per_second: float | None = None
    """Foreseen on the assigned devices by the reports of now; what was promised is `assignment.predictedFraction`."""
    measured_tokens_per_second: float | None = None
    """Measured over the monitor's window."""
    measured_fraction: float | None = None
    """Measured over solo."""


class Progress(ReadModel):
    """How far the job is."""

    unit: Literal["steps", "rows"] | None = None
    """What is counted."""
    completed: int
    """Units done."""
    total: int
    """Units in all."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def display(self) -> str:
        """Completed and total units, for people."""
        return f"{self.completed}/{self.total}"


class CandidateExplanation(ReadModel):
    """What the scheduler thought of one candidate."""

    node: Annotated[str, Field(max_length=253)]
    """Node."""
    devices: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=16)]
    """Devices of the node."""
    idle: float
    """Idle factor I in [0, 1]."""
    memory: float
    """Memory factor M: throughput with the memory that the pool lends, over that with all the job wants; 0 where its
    own memory does not fit."""
    alignment: float
    """Least pairwise alignment A of the devices; 1 for a single one."""
    sharing: float
    """Part of the idle time that is left beside other offline tenants."""
    predicted_fraction: float
    """Predicted throughput over solo."""
    chosen: bool
    """Whether the job was placed here."""
    reason: Annotated[str, Field(max_length=1024)]
    """Which factor decided, with its number."""


class Explanation(ReadModel):
    """Why the job is where it is, or is nowhere."""

    message: Annotated[str, Field(max_length=4096)]
    """Summary in a sentence."""
    candidates: Annotated[list[CandidateExplanation], Field(max_length=16)] = []
    """The best candidate; the scheduler's HTTP API tells all of them."""


class OfflineJobStatus(ReadModel):
    """What Rowen observes. Conditions are the truth; `state` is derived from them for display."""

    observed_generation: int | None = None
    """Generation that the status was computed from."""
    conditions: Conditions = []
    """Suspended, Admitted, Placed, Running, Preempted, SLAMet, Finished."""
    state: Annotated[str, Field(max_length=64)] | None = None
    """One word for people, derived from the conditions."""
    kind: Annotated[str, Field(max_length=32)] | None = None
    """FineTune, BatchInference or Template, for people."""
    assignment: Assignment | None = None
    """Where the job may run now."""
    attempts: int | None = None
    """Pods started so far."""
    failures: int | None = None
    """Attempts that failed and count against backoffLimit."""
    counted_attempt: int | None = None
    """Last attempt whose end has been counted, so that none is counted twice."""
    start_failure: StartFailure | None = None
    """The last assignment on which no pod could be started; told by the operator, acted on by the scheduler."""
    evictions: int | None = None
    """Placements that the scheduler withdrew."""
    progress: Progress | None = None
    """How far the job is."""
    throughput: Throughput | None = None
    """Predicted and measured throughput."""
    start_time: Timestamp | None = None
    """When the first pod started."""
    completion_time: Timestamp | None = None
    """When the job finished."""
    result: Annotated[str, Field(max_length=4096)] | None = None
    """What the worker said when it ended, e.g. losses or row counts."""
    explanation: Explanation | None = None
    """Why the job is where it is, or is nowhere."""
