"""The simulated machines: what a model takes, and how long its stages really take."""

from dataclasses import dataclass

from rowen.scheduler.lemix.batching import BatchLimits
from rowen.scheduler.lemix.stage_memory import MemoryLimits

NODES = 4
STAGES = 2
LAUNCH_PART = 0.1
"""Of a mean stage pass: what does not depend on what is computed. Profiling (Δ = η·C·ℓ²) does not know of it."""
NOISE = 0.1
"""Deviation of the logarithm of a stage pass's time."""
POOL_LENGTHS = 8.0
"""Memory of a stage, in sequences of mean length."""
OFFLOAD_PART = 0.25
"""Of a mean stage pass: to move a sequence of mean length to host memory, or back."""
OVERRUN_PART = 1.0
"""The same for memory beyond the stage's, which nobody planned for."""
SLO_FORWARDS = 5.0
BATCH = 4


@dataclass(frozen=True, slots=True)
class Model:
    """A model of LeMix's Table II: mean times of a whole forward and backward pass, in seconds."""

    name: str
    forward: float
    backward: float


LLAMA_13B = Model("llama_13b", 0.24, 0.36)
LLAMA_70B = Model("llama_70b", 0.73, 1.05)


@dataclass(frozen=True, slots=True)
class Machine:
    """A model on one node's stages, under sequences of these lengths. Memory in tokens."""

    model: Model
    mean_length: float
    mean_work: float
    """Mean of squared lengths."""

    def pass_seconds(self, work: float, *, backward: bool, noise: float) -> float:
        """A stage pass of so much C·ℓ²."""
        whole = self.model.backward if backward else self.model.forward
        return whole / STAGES * (LAUNCH_PART + (1.0 - LAUNCH_PART) * work / self.mean_work) * noise

    def moving_seconds(self, tokens: float, part: float) -> float:
        """To move so much, by `OFFLOAD_PART` or `OVERRUN_PART`."""
        return part * self.model.forward / STAGES * tokens / self.mean_length

    @property
    def slo_seconds(self) -> float:
        """τ_R: five times a mean forward pass (section VI-A)."""
        return SLO_FORWARDS * self.model.forward

    @property
    def batches(self) -> BatchLimits:
        """T_w is half a mean forward pass (section V-D)."""
        return BatchLimits(BATCH, 0.5 * self.model.forward)

    @property
    def memory(self) -> MemoryLimits:
        """Waits as long as a batch does at most; looks again after a tenth of that."""
        wait = 0.5 * self.model.forward
        return MemoryLimits(POOL_LENGTHS * self.mean_length, 0.9, 0.1 * wait, wait)
