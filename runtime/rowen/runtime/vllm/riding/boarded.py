"""What it takes that something can ride in an engine."""

from dataclasses import dataclass
from typing import Protocol

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve.learner import Learner
from rowen.runtime.coserve.seat.seat import Arrival, Departure
from rowen.runtime.coserve.task import Result, TaskUnsuitable
from rowen.runtime.vllm.riding.hooks import Hooks


class Guests(Protocol):
    """Of `Seat`, what is used here."""

    def take(self) -> list[Arrival | Departure]:
        """What has happened."""

    def deliver(self, guest: int, answer: Result | TaskUnsuitable) -> None:
        """Answers a task."""

    @property
    def worked_seconds(self) -> float:
        """CPU time that they took so far."""

    def tell(self, sums: StepSums, ended: str | None) -> None:
        """What the agent is told."""

    def close(self) -> None:
        """Ends it."""


class Files(Protocol):
    """Of `ModelFiles`, what is used here."""

    def check(self, now: float) -> None:
        """Raises `ModelFilesChanged`."""

    def close(self) -> None:
        """They are used no more."""


@dataclass(frozen=True)
class Boarded:
    """What riding takes."""

    learner: Learner
    guests: Guests
    hooks: Hooks
    files: Files
    """Which the learner reads."""
