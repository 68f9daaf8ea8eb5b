"""How often something may be done."""

from collections.abc import Callable


class Bucket:
    """`burst` times at once, and `per_second` on average. `clock` counts seconds."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left, self._at = float(burst), clock()

    def take(self) -> bool:
        """Whether it may be done once more, now; it counts where it may."""
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
