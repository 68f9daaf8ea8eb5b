"""What happened on a device, as its page tells: counters, requests, closings of the gate, offences."""

from dataclasses import dataclass, field
from enum import Enum

from rowen.crds.ride.messages import StepSums


class Offence(Enum):
    """Why the kernel had to stop a pod."""

    UNACKNOWLEDGED = 1
    """A process did not acknowledge in time."""
    HANDLER_REPLACED = 2
    """A process has put a handler of its own in the place of the gate's."""
    RAN = 3
    """The pod used its CPU while the gate was closed and all who had attached had acknowledged."""
    BLAMELESS = 4
    """Nobody's fault: a process did not acknowledge in time and did not run either, since the machine was busy or
    another device had stopped the pod already; or the kernel worked for the pod for long."""


@dataclass(frozen=True)
class TenantCounts:
    """What one offline slot has done since its pod came. Times in seconds."""

    attached: int
    open_seconds: float
    preemptions: int
    backstops: int
    reports: int
    completed: int
    total: int
    tokens: int
    granted_seconds: float
    offences: int = 0
    """Of the backstops, those that the pod is to blame for."""
    offence: Offence | None = None
    """Why the kernel stopped it last, where it did."""
    offender: int | None = None
    """Process that it is known of, as the agent sees it."""


@dataclass(frozen=True)
class DeviceCounts:
    """State of the device and its counters since its state was made. Times in seconds, clock: monotonic."""

    now: float
    idle_seconds: float
    harvested_seconds: float
    preemptions: int
    backstops: int
    decode_gap: float
    cooldown: float
    gate_open: bool
    online_processes: int
    in_flight: int
    tenant_processes: int
    tenants: tuple[TenantCounts, ...]
    steps: StepSums = field(default_factory=StepSums)
    """What its engines' steps were made of since each of them began, as they say it; zeros: they do not."""
    share: float | None = None
    """Fraction of the device that the gate is open for now, beside requests; None: for all of it, or it is closed."""
    shared_seconds: float = 0.0
    """Open at a share; idle, harvested and open time count that by the share."""


@dataclass(frozen=True)
class Request:
    """A finished online request. Times in seconds, clock: monotonic."""

    number: int
    begin: float
    end: float
    ttft: float
    tpot: float | None
    preemptions: int
    tenant_present: bool


@dataclass(frozen=True)
class Closing:
    """A close of the gate and what followed. Times in seconds, clock: monotonic; None: not yet."""

    number: int
    closed: float
    acknowledged: float | None
    opened: float | None
    tenants: int
    for_request: bool
    share: float | None = None
    """Of the device, that it was opened for; None: all of it."""
