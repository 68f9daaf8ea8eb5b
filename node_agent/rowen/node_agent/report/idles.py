"""How idle a device was over an hour and a day, in a few samples. Pure: no clock, no I/O."""

from collections import deque

from rowen.crds.text.digits import significant
from rowen.crds.text.texts import IdleWindow

WINDOWS_SECONDS = (3600.0, 86400.0)
_SAMPLES = 60
"""In a window; it is longer than it says by one part in so many at most."""


_MARGIN_SECONDS = 1.0
"""A window that is longer by less says nothing new."""


class LongIdles:
    """What the windows are made from: the device's counter of idle time, now and then. Times in seconds, monotonic."""

    def __init__(self) -> None:
        self._rings: dict[float, deque[tuple[float, float]]] = {}
        self._latest = (0.0, 0.0)
        self.restart()

    def restart(self) -> None:
        """Forgets what was before."""
        self._rings = {seconds: deque() for seconds in WINDOWS_SECONDS}

    def add(self, now: float, idle_seconds: float) -> None:
        """`idle_seconds`: for how long the device was idle so far."""
        self._latest = now, idle_seconds
        for seconds, ring in self._rings.items():
            if not ring or now - ring[-1][0] >= seconds / _SAMPLES:
                ring.append(self._latest)
            # One sample at or before the beginning stays, so that the difference spans the whole window.
            while len(ring) > 1 and ring[1][0] <= now - seconds:
                ring.popleft()

    def windows(self, least_seconds: float) -> list[IdleWindow]:
        """Those that cover more than `least_seconds`, and more than the ones before."""
        found: list[IdleWindow] = []
        for ring in self._rings.values():
            span = self._latest[0] - ring[0][0] if ring else 0.0
            if span > max([least_seconds, *(window.seconds for window in found)]) + _MARGIN_SECONDS:
                fraction = (self._latest[1] - ring[0][1]) / span
                found.append(IdleWindow(seconds=round(span), fraction=significant(min(1.0, max(0.0, fraction)), 4)))
        return found
