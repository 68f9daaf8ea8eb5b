"""When what has not helped is tried again. No I/O."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

FIRST_SECONDS = 10.0
"""Between the first try and the second; then twice as long each time."""
MOST_SECONDS = 300.0
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class _Try:
    next_time: float
    """Seconds, monotonic clock."""
    wait_seconds: float


class Tries(Generic[Key]):
    """Of any number of things, each by its key."""

    def __init__(self) -> None:
        self._tries: dict[Key, _Try] = {}

    def due(self, keys: Collection[Key], now: float) -> list[Key]:
        """Which of those that still need it are to be tried now: a new one at once. All others are forgotten.

        `now`: seconds, monotonic clock.
        """
        self._tries = {key: tried for key, tried in self._tries.items() if key in keys}
        return [key for key in keys if self._is_due(key, now)]

    def _is_due(self, key: Key, now: float) -> bool:
        before = self._tries.get(key)
        if before is not None and now < before.next_time:
            return False
        wait = FIRST_SECONDS if before is None else min(2 * before.wait_seconds, MOST_SECONDS)
        self._tries[key] = _Try(now + wait, wait)
        return True
