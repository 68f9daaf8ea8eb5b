"""Whether a task may begin on a stage as far as memory goes: wait, or offload (LeMix, section IV-D, Algorithm 2)."""

from dataclasses import dataclass
from enum import Enum


class MemoryStep(Enum):
    """What to do now."""

    RUN = "run"
    WAIT = "wait"
    """And look again after the check interval."""
    OFFLOAD = "offload"
    """Run with the task's cache and activations in host memory."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What profiling gave (section IV-A). Memory in any one unit."""

    peak: float
    """M_peak of a stage."""
    safety: float
    """κ, in (0, 1]."""
    check_seconds: float
    """Δ_t."""
    wait_seconds: float
    """T_max."""

    @property
    def threshold(self) -> float:
        """M_threshold = κ·M_peak."""
        return self.safety * self.peak


@dataclass(frozen=True, slots=True)
class MemoryDecision:
    """With its reason."""

    step: MemoryStep
    reason: str


def memory_step(used: float, need: float, waited_seconds: float, limits: MemoryLimits) -> MemoryDecision:
    """Algorithm 2, lines 7 to 12, one look at a time.

    The listing neither waits nor runs a task whose memory is still missing after it was offloaded. Here a wait lasts
    `check_seconds`, and a task that was offloaded runs, since it needs no memory of the stage. One that no stage could
    ever hold is offloaded at once: to wait would not help it.
    """
    room = limits.threshold - used
    if need <= room:
        return MemoryDecision(MemoryStep.RUN, f"{need:g} of {room:g} free")
    if need > limits.threshold:
        return MemoryDecision(MemoryStep.OFFLOAD, f"{need:g} is above the threshold {limits.threshold:g}")
    if waited_seconds >= limits.wait_seconds:
        return MemoryDecision(MemoryStep.OFFLOAD, f"{need:g} not free after {waited_seconds:.3f} s")
    return MemoryDecision(MemoryStep.WAIT, f"{need:g} needed, {max(0.0, room):g} free")
