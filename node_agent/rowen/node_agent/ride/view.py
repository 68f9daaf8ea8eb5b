"""An engine that takes riders in, as the agent's loops see it."""

from dataclasses import dataclass

from rowen.crds.ride.messages import StepSums


@dataclass(frozen=True)
class EngineView:
    """As it last told."""

    since: float
    """When it came (seconds, monotonic clock)."""
    seats: int
    sums: StepSums | None
    """None: it has told nothing yet."""
    ended: str | None
    """Why nothing rides in it any more."""
    pod: str = ""
    """UID of its pod; empty where it is not known."""
