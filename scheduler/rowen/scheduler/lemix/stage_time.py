"""How long a stage takes: Δ = η·C·ℓ², with η from profiling (LeMix, section IV-A)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rowen.scheduler.lemix.task import Task


@dataclass(frozen=True, slots=True)
class StagePass:
    """One profiled task on one stage."""

    task: Task
    forward_seconds: float
    backward_seconds: float
    """0 for a serving task, which has none."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """η of a node's stages, in seconds per squared token.

    Raises:
        ValueError: one is out of range; the message names it.
    """

    forward: float
    """η_F."""
    backward: float
    """η_B; 0 where no training task was profiled."""

    def __post_init__(self) -> None:
        if not 0.0 < self.forward < math.inf:
            raise ValueError(f"forward {self.forward}: must be finite and above 0")
        if not 0.0 <= self.backward < math.inf:
            raise ValueError(f"backward {self.backward}: must be finite and not negative")

    def forward_seconds(self, task: Task) -> float:
        """Δ_F = η_F·C·ℓ²."""
        return self.forward * task.work

    def backward_seconds(self, task: Task) -> float:
        """Δ_B = η_B·C·ℓ²."""
        return self.backward * task.work


def profiled(passes: Sequence[StagePass]) -> StageTime:
    """η from measured passes: all their time over all their C·ℓ².

    Section IV-A has runtimes "normalized by C·ℓ²" and leaves open how they are averaged. The ratio of sums is taken: in
    a mean of ratios a short sequence, whose time is mostly launches, would outweigh all the long ones.

    Raises:
        ValueError: there is no pass, a time is negative or not finite, or no forward pass took any time.
    """
    if not passes:
        raise ValueError("passes: at least one is needed")
    for measured in passes:
        for field in ("forward_seconds", "backward_seconds"):
            value = getattr(measured, field)
            if not math.isfinite(value) or value < 0.0:
                raise ValueError(f"{field} {value}: must be finite and not negative")
    training = [measured for measured in passes if measured.task.trains]
    forward = sum(measured.forward_seconds for measured in passes) / sum(measured.task.work for measured in passes)
    if not training:
        return StageTime(forward, 0.0)
    backward = sum(measured.backward_seconds for measured in training)
    return StageTime(forward, backward / sum(measured.task.work for measured in training))
