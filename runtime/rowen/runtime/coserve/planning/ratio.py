"""How far off a prediction is for what it is asked, as one number that follows the machine and not its stalls."""

_SLOW = 0.05
"""Weight of an observation among many."""
_START_SPREAD = 0.05
_LEAST_SPREAD = 0.005
_SPREAD_STEP = 0.1
_USUAL = 3.0
"""Spreads within which an observation counts in full."""
_FORGOTTEN = 1 / 256
_NEAR = 0.05
_SHIFTED = 4.0
"""Spreads beyond which three observations in a row say that the ratio is another now."""


class Ratio:
    """A running mean of measured over predicted.

    One stall moves it by little, and so do two. When three in a row lie far off on one side, it is theirs.
    """

    __slots__ = ("_recent", "_spread", "at", "count", "value")

    def __init__(self, at: int = 0, value: float = 1.0, count: int = 0) -> None:
        """`at`: when it was observed last, by a count of the caller's.

        The value is believed as if it had been observed `count` times; with none the first observation is.
        """
        self.value = value
        self.count = count
        self.at = at
        self._spread = _START_SPREAD
        self._recent: tuple[float, ...] = ()

    def observe(self, ratio: float, at: int = 0) -> bool:
        """Takes one in; above 0. True: the value has gone over to another one at once."""
        self.count += 1
        self.at = at
        self._recent = (*self._recent[-2:], ratio)
        if self.count == 1:
            self.value = ratio
            return False
        shifted = self._shifted()
        if shifted is not None:
            self.value, self.count, self._spread = shifted, 2, max(self._spread, _START_SPREAD)
            return True
        off = ratio / self.value - 1
        most = _USUAL * self._spread
        self.value *= 1 + max(-most, min(most, off)) * max(_SLOW, 1 / self.count)
        self._spread = max(_LEAST_SPREAD, self._spread * (1 + _SPREAD_STEP * (1 if abs(off) > self._spread else -1)))
        return False

    def forget(self, times: int = 1) -> bool:
        """Goes a little way back to 1, where nothing tells any more how far off it is. True: it was far from it."""
        off = self.value - 1
        self.value = 1 + off * (1 - _FORGOTTEN) ** times
        return abs(off) > _NEAR

    def _shifted(self) -> float | None:
        if len(self._recent) < 3:
            return None
        least, middle, greatest = sorted(self._recent)
        most = _SHIFTED * self._spread
        return middle if least > self.value * (1 + most) or greatest < self.value * (1 - most) else None
