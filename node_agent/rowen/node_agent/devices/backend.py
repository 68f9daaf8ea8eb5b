"""What a kind of device has to offer. A backend states what it can do; nothing else depends on which one it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, Protocol

from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request
from rowen.node_agent.devices.device import Admission
from rowen.node_agent.memory.loans import Loans


class LatencyClass(Enum):
    """How fast offline work stops, on a machine whose own scheduling is not slower."""

    SUB_MILLISECOND = "sub-millisecond"
    UNKNOWN = "unknown"
    """Nobody has measured it."""


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do."""

    latency: LatencyClass
    backstop: bool
    """What a tenant has begun on the device stands still too when its pod is frozen: it need not cooperate."""
    memory_handles: bool
    """It can move physical memory between tenants."""


class Gate(Protocol):
    """One device that is being served."""

    loans: Loans | None
    """Who has memory of its pool; None: it has no pool."""

    def start(self) -> None:
        """Starts serving."""

    def close(self) -> None:
        """Stops serving; tenants stop when their lease has run out."""

    def beat(self) -> float:
        """When what serves the device last came round (seconds, monotonic clock)."""

    def renew(self, until: float) -> None:
        """Lets offline work run until then (seconds, monotonic clock)."""

    def set_riders(self, riders: int) -> None:
        """So many jobs are joined with its engine, as its requests are to tell."""

    def admit(self, slot: int | None, pid: int, pidfd: int) -> Admission:
        """Lets a process of a slot's pod in, or of an engine (None). Raises `OSError`."""

    def loosen(self, number: int) -> None:
        """A member's connection is gone, its process is not."""

    def dismiss(self, number: int) -> None:
        """A member's process has ended."""

    def set_pod(self, slot: int, pod: int, freezer: Path, cpuacct: Path | None, cpu: Path | None = None) -> None:
        """Which pod has the slot, and its cgroup, by which it is stopped from outside. Raises `OSError`.

        `cpu`: with version 1 where its CPU time can be limited.
        """

    def reset(self, slot: int) -> bool:
        """Clears a slot for its next pod; False while a process is still attached."""

    def counts(self) -> DeviceCounts:
        """State and counters now."""

    def requests(self, after: int) -> Sequence[Request]:
        """Finished online requests numbered above `after`, oldest first."""

    def closings(self, after: int) -> Sequence[Closing]:
        """Closes numbered above `after`, oldest first."""


class Backend(Protocol):
    """How one device is shared."""

    name: Literal["cpu", "nvidia"]
    capabilities: Capabilities
    tenant_library: str
    """The library with which its tenants stop, by the name under which it is built."""

    def fault(self) -> str | None:
        """Why this node's device cannot be used now, for people; None: it can. Reads the node."""

    def hardware(self) -> str:
        """What it is, in at most 63 letters; profiles are kept by it. Reads the node."""

    def environment(self) -> Mapping[str, str]:
        """Variables by which a container gets to see it; of several devices their values are joined by commas."""

    def open(self, directory: Path, *, backstop: float) -> Gate:
        """Serves it, with the state that the last agent left.

        `backstop`: seconds after which a tenant that has not stopped is stopped from outside. Raises `OSError`;
        `BlockingIOError`: another agent serves it.
        """
