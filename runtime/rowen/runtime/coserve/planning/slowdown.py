"""How much longer an engine's steps take beside offline work, by the share of the device that this may use; pure.

The second stage of Harli's prediction, `L_colo = (SM_infer * b1 + SM_ft * k1) * L_solo` (section 5.2, Eq. 3). The
engine is not partitioned here, so `SM_infer` is constant. What is left is a factor for each share of the tuner, and it
is no straight line: the kernel may give a tuner less than it is allowed, or another core.
"""

from bisect import bisect_right

from rowen.runtime.coserve.planning.ratio import Ratio

WHOLE = 10
"""Tenths of a device."""
_KNOWN = 4
"""Observations from which on a share's factor is known."""
_MOVED = 0.01
"""Part of a factor by which it may move and count as what it was."""


class Slowdowns:
    """Learns the factor of each share. Not for several threads."""

    def __init__(self) -> None:
        self.version = 0
        """Another one where factors are no longer what they were."""
        self.largest = 0
        """Tenths of the largest share whose factor is known; 0: none is."""
        self._ratios: dict[int, Ratio] = {}
        self._known: set[int] = set()
        self.factors = self._fitted()
        """By tenths, 0 to 9; never below 1, nor below that of a smaller share.

        As long as it is not known: the next smaller known one's, times what it would be more if offline work took all
        of its quota from the engine's own core (`1 / (1 - tenths / 10)`), but no more than that of a larger share.
        """

    def most(self, factor: float) -> int:
        """Tenths of the largest share whose factor is no greater; 0 where none is."""
        return max(0, bisect_right(self.factors, factor) - 1)

    def observe(self, tenths: int, factor: float) -> None:
        """A step took so many times (above 0) what it takes alone, beside so many tenths, 1 to 9."""
        ratio = self._ratios.setdefault(tenths, Ratio())
        if ratio.observe(factor):
            # Other offline work, or something else that it does now: the other factors are those of before.
            self._ratios, self._known = {tenths: ratio}, {tenths}
        elif ratio.count >= _KNOWN:
            self._known.add(tenths)
        self._take()

    def forget_above(self, tenths: int) -> None:
        """What is known of larger shares is so no more: it may have been a stall's doing."""
        self._known = {each for each in self._known if each <= tenths}
        self._ratios = {each: ratio for each, ratio in self._ratios.items() if each <= tenths}
        self._take()

    def _take(self) -> None:
        self.largest = max(self._known, default=0)
        fitted = self._fitted()
        if any(abs(new - old) > _MOVED * old for new, old in zip(fitted, self.factors, strict=True)):
            self.factors = fitted
            self.version += 1

    def _fitted(self) -> list[float]:
        factors, base = [1.0], 0
        for tenths in range(1, WHOLE):
            if tenths in self._known:
                base, found = tenths, self._ratios[tenths].value
            else:
                found = min(self._least_above(tenths), factors[base] * (WHOLE - base) / (WHOLE - tenths))
            factors.append(max(factors[-1], found))
        return factors

    def _least_above(self, tenths: int) -> float:
        return min((self._ratios[each].value for each in self._known if each > tenths), default=float("inf"))
