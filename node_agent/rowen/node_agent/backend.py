"""What a kind of device has to offer. A backend states what it can do; nothing else depends on which one it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, Protocol

from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.device import Admission, Closing, DeviceCounts, Request
from rowen.node_agent.memory.loans import Loans


class LatencyClass(Enum):
    """How fast offline work stops, on a machine whose own scheduling is not slower."""

    SUB_MILLISECOND = "sub-millisecond"
    MILLISECONDS = "milliseconds"


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do."""

    latency: LatencyClass
    backstop: bool
    """It can stop a tenant that does not cooperate."""
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

    def admit(self, slot: int | None, pid: int, pidfd: int) -> Admission:
        """Lets a process of a slot's pod in, or of an engine (None). Raises `OSError`."""

    def loosen(self, number: int) -> None:
        """A member's connection is gone, its process is not."""

    def dismiss(self, number: int) -> None:
        """A member's process has ended."""

    def set_pod(self, slot: int, pod: int, freezer: Path, cpuacct: Path | None) -> None:
        """Which pod has the slot, and its cgroup. Raises `OSError`."""

    def reset(self, slot: int) -> bool:
        """Clears a slot for its next pod; False while a process is still attached."""

    def counts(self) -> DeviceCounts:
        """State and counters now."""

    def requests(self, after: int) -> Sequence[Request]:
        """Finished online requests numbered above `after`, oldest first."""

    def closings(self, after: int) -> Sequence[Closing]:
        """Closes numbered above `after`, oldest first."""


class Backend(Protocol):
    """A kind of device."""

    name: Literal["cpu", "nvidia"]
    capabilities: Capabilities

    def open(self, directory: Path, config: DeviceConfig, *, backstop: float) -> Gate:
        """Serves a device, with the state that the last agent left. Raises `OSError`."""
