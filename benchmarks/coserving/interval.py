"""Dynamic temporal sharing: how many steps an engine makes until the next iteration of fine-tuning.

FlexLLM, Appendix A, Algorithm 3, with its constants.
"""

from statistics import mean

LEAST, MOST = 64, 512
"""Steps."""
_QUEUE, _SPIKE, _BACKLOG = 20.0, 25.0, 8.0
_LOW, _HIGH = 0.8, 2.0
"""Pressures with the least and the most steps."""
_DECISIONS = 3
"""A new interval is computed at every so many."""


class DynamicInterval:
    """Hears of every step, and says when fine-tuning has its turn."""

    def __init__(self) -> None:
        self._left, self._previous, self._decisions = LEAST, float(LEAST), 0
        self._queues: list[int] = []
        self._arrived = self._completed = 0

    def step(self, queued: int, arrived: int, completed: int) -> bool:
        """One step, with the requests that wait and that came and were done since the last. True: a turn is due."""
        self._queues.append(queued)
        self._arrived += arrived
        self._completed += completed
        self._left -= 1
        if self._left > 0:
            return False
        self._decisions += 1
        if self._decisions >= _DECISIONS:
            self._left, self._decisions = self._next(), 0
            return False
        self._left = min(MOST, int(self._previous * 1.1))
        self._queues, self._arrived, self._completed = [], 0, 0
        return True

    def _next(self) -> int:
        backlog = (self._arrived - self._completed) / len(self._queues)
        pressure = (
            min(1.0, mean(self._queues) / _QUEUE) + min(0.5, max(self._queues) / _SPIKE) + max(0.0, backlog / _BACKLOG)
        )
        if pressure <= _LOW:
            return LEAST
        if pressure >= _HIGH:
            return MOST
        steps = (LEAST + (pressure - _LOW) / (_HIGH - _LOW) * 0.6 * (MOST - LEAST)) * 1.35
        self._previous = (steps + 2 * self._previous) / 3
        return int(min(MOST, max(self._previous, LEAST + 16)))
