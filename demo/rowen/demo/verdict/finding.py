"""What a missed objective is put down to."""

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Who made the service miss its objective."""

    SERVICE = "service"
    """The service alone: it would have missed it without any offline work."""
    TENANT = "tenant"
    """Offline work."""
    REPLAYER = "replayer"
    """The replayer of the traffic, which was late itself."""
    UNKNOWN = "unknown"
    BUSY = "busy"
    """Not known, and the machine was too busy to measure on."""


@dataclass(frozen=True)
class Finding:
    """The cause, and what says so."""

    cause: Cause
    because: str


def milliseconds(seconds: float) -> str:
    """For people."""
    return f"{seconds * 1000:.1f} ms"
