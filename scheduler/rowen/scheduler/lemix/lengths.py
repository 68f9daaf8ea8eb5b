"""Sequence lengths that a node has had: mean, deviation, and how well one more fits them."""

import math
from dataclasses import dataclass

LEAST_DEVIATION = 1.0
"""In tokens. Sequences all of one length have a deviation of 0, where Eq. 2 has no value."""
_LEAST_COUNT = 2


@dataclass(frozen=True, slots=True)
class Lengths:
    """Running mean and deviation (Welford)."""

    count: int = 0
    mean: float = 0.0
    """μ, in tokens."""
    squares: float = 0.0
    """Sum of squared distances from the mean."""

    @property
    def deviation(self) -> float:
        """σ, in tokens, of all of them (not of a sample)."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def after(self, length: int) -> "Lengths":
        """With one more."""
        count = self.count + 1
        away = length - self.mean
        mean = self.mean + away / count
        return Lengths(count, mean, self.squares + away * (length - mean))

    def consistency(self, length: int) -> float:
        """LC (Eq. 2): 1/(σ·√(2π))·exp(−(ℓ − μ)²/(2σ²)), in 1/token.

        The text breaks off after "1/σ"; what fits it, and the mean that it explains next, is the normal density. With
        fewer than two lengths nothing is known of a node's workload, so nothing is consistent with it: 0. σ is at
        least `LEAST_DEVIATION`.
        """
        if self.count < _LEAST_COUNT:
            return 0.0
        deviation = max(self.deviation, LEAST_DEVIATION)
        away = (length - self.mean) / deviation
        return math.exp(-away * away / 2.0) / (deviation * math.sqrt(2.0 * math.pi))


NO_LENGTHS = Lengths()
"""Of a node that has had no task."""
