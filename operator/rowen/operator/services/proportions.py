"""Intervals of proportions, and of their difference.

R. G. Newcombe, Statistics in Medicine 17 (1998): "Two-sided confidence intervals for the single proportion", method 4
(E. B. Wilson's score interval of 1927 with a continuity correction), pp. 857-872, and "Interval estimation for the
difference between independent proportions", method 11 (the same intervals, squared and added), pp. 873-890. The
correction makes them somewhat too wide and not too narrow, where few of many requests are late.
"""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Proportion:
    """So many of so many; `of` is above 0 wherever an interval is asked for."""

    count: int = 0
    of: int = 0

    @property
    def rate(self) -> float:
        """The part."""
        return self.count / self.of

    def __add__(self, other: "Proportion") -> "Proportion":
        return Proportion(self.count + other.count, self.of + other.of)


def lower(part: Proportion, z: float) -> float:
    """Lower end, with p = x/n, q = 1 - p: (2np + z² - 1 - z·√(z² - 2 - 1/n + 4p(nq + 1))) / 2(n + z²)."""
    if part.count == 0:
        return 0.0
    n, p, q = part.of, part.rate, 1.0 - part.rate
    root = sqrt(z * z - 2.0 - 1.0 / n + 4.0 * p * (n * q + 1.0))
    return max(0.0, (2.0 * n * p + z * z - 1.0 - z * root) / (2.0 * (n + z * z)))


def upper(part: Proportion, z: float) -> float:
    """Upper end: that of the others, from the other side."""
    return 1.0 - lower(Proportion(part.of - part.count, part.of), z)


def least_difference(one: Proportion, other: Proportion, z: float) -> float:
    """Lower end of p₁ - p₂: that less √((p₁ - l₁)² + (u₂ - p₂)²), with the ends l and u of each."""
    below = one.rate - lower(one, z)
    above = upper(other, z) - other.rate
    return one.rate - other.rate - sqrt(below * below + above * above)
