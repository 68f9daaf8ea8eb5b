"""Answers that hold for a moment: bounded in number and in time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps up to `most` answers, each for `seconds` after it was given. `clock` counts seconds."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float]) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The answer while it holds."""
        found = self._kept.get(key)
        if found is None:
            return None
        until, value = found
        if self._clock() < until:
            return value
        del self._kept[key]
        return None

    def put(self, key: K, value: V) -> None:
        """Keeps an answer; the oldest goes where there are too many."""
        self._kept.pop(key, None)
        self._kept[key] = self._clock() + self._seconds, value
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
