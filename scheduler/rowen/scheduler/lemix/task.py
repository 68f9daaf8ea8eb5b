"""What is scheduled: a batch of sequences that goes through a node's stages."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A serving task (forward only) or a training task (forward, then backward).

    Raises:
        ValueError: a field is out of range; the message names it.
    """

    arrival: float
    """a: when it was queued, in seconds."""
    length: int
    """Tokens of a sequence."""
    batch: int = 1
    """C: sequences."""
    trains: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.arrival):
            raise ValueError(f"arrival {self.arrival}: must be finite")
        if self.length < 1:
            raise ValueError(f"length {self.length}: must be at least 1")
        if self.batch < 1:
            raise ValueError(f"batch {self.batch}: must be at least 1")

    @property
    def work(self) -> int:
        """C·ℓ², which a stage's time is proportional to (section IV-A)."""
        return self.batch * self.length * self.length
