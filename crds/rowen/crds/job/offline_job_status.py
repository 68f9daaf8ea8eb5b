"""What Rowen tells of an OfflineJob: where it may run, how far it is, and why."""

from typing import Annotated, Literal

from pydantic import Field, computed_field

from rowen.crds.base import ReadModel, Timestamp
from rowen.crds.common import Conditions

CO_SERVE = "CoServe"
"""The mode of an assignment to a seat in an engine."""
SPATIAL = "Spatial"
"""The mode of an assignment beside an engine that shares its device while it serves."""


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
    mode: Annotated[str, Field(max_length=63)] | None = None
    """`CoServe`: the engine on the device computes the job, as part of its own work. `Spatial`: the job's pod does,
    while the engine is idle, and on a share of the device while it is busy. Absent: while the engine is idle
    (`Preempt`)."""
    time: Timestamp
    """When it was made."""
    lease: Lease
    """The node's hold on it."""

    @property
    def rides(self) -> bool:
        """Whether the job is computed in the engine."""
        return self.mode == CO_SERVE


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


class RideLosses(ReadModel):
    """As of the last of them: attempts in a row that ended with RideLost or RideBroken, and the job no further on."""

    attempts: Annotated[int, Field(ge=1)]
    """Their number; at three the job rides no more (`rideRefused`)."""
    completed: int
    """Units done at the furthest of them: one that ends further on is the first again."""


class Throughput(ReadModel):
    """Tokens per second, predicted and measured."""

    solo_tokens_per_second: float | None = None
    """Alone on a device: the profile of the workload class. Absent while that is not known: what riders make is not."""
    predicted_tokens_per_second: float | None = None
    """Foreseen on the assigned devices by the reports of now; what was promised is `assignment.predictedFraction`. Of a
    rider whose throughput alone is not known: its part of what its class makes in engines."""
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

    mode: Annotated[str, Field(max_length=63)] | None = None
    """As in `assignment`."""
    node: Annotated[str, Field(max_length=253)]
    """Node."""
    devices: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=16)]
    """Devices of the node."""
    idle: float
    """Idle factor I in [0, 1]; in mode `CoServe` the part of the throughput alone that the engine gives."""
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
    ride_refused: Annotated[str, Field(max_length=1024)] | None = None
    """Why no engine computes the job any more: what one said that refused it for good, or that three attempts came to
    nothing in engines. From then on its own pod does, beside an engine."""
    ride_losses: RideLosses | None = None
    """The last attempts that lost their engine, or found none, while the job got no further."""
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
