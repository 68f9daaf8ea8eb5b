"""The numbers that the policies work with."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from rowen.crds.names import NODE_LEASE_SECONDS

Seconds = Annotated[float, Field(gt=0)]


class Policy(BaseModel):
    """Thresholds and times of the scheduler's policies. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    alignment_threshold: Annotated[float, Field(ge=0, le=1)] = 0.6
    """θ: least pairwise alignment of the devices of a lockstep job."""
    lease_seconds: ClassVar[int] = NODE_LEASE_SECONDS
    """Life of an assignment after the last heartbeat of its node; its agent goes by the same number."""
    lease_grace_seconds: Annotated[float, Field(ge=0)] = 3.0
    """Added to the lease before it counts as run out: the gate's own lease (2 s) and the report's way."""
    disruption_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How much longer nodes are waited for where most that hold assignments are silent at once."""
    dwell_seconds: Annotated[float, Field(ge=0)] = 120.0
    """Least time on an assignment before it can be evicted for its SLA."""
    backoff_seconds: Seconds = 30.0
    """First back-off of a job from a node; it doubles with each eviction."""
    backoff_limit_seconds: Seconds = 1800.0
    """Longest back-off."""
    monitor_window_seconds: Seconds = 60.0
    """Window over which throughput is measured."""
    shortfall_seconds: Seconds = 120.0
    """How many seconds of the throughput of its SLA may be missing before a job counts as short of it."""
    drift_seconds: Annotated[float, Field(ge=0)] = 120.0
    """How many seconds of the promised throughput a node's reports may fall short, beyond the margin and their noise,
    before its pattern counts as changed."""
    startup_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How long a job may take to its first token before it counts as without progress."""
    absence_seconds: Annotated[float, Field(ge=0)] = 30.0
    """How long a device may be without an attached engine before its jobs are moved."""
    profile_seconds: Seconds = 20.0
    """Granted seconds after which a solo throughput is taken as known."""

    @property
    def remembered_seconds(self) -> float:
        """How many missing seconds are remembered: else a bad night would be held against a job for days."""
        return 2.0 * self.shortfall_seconds
