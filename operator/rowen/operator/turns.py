"""When figures alone may be written to a status: so that all running jobs together ask little of the API server."""

from collections.abc import Hashable

QUIET_SECONDS = 10.0
"""Least time between two writes of one object's figures."""
MOST_PER_SECOND = 25.0
"""Of such writes, of all objects together. One takes some 6 ms of the API server's processor time."""


class Turns:
    """Of the objects whose figures may change, by key. Times in seconds of one clock."""

    def __init__(self) -> None:
        self._written: dict[Hashable, float] = {}

    def period_seconds(self) -> float:
        """Between two writes of one object's figures: longer, the more objects there are."""
        return max(QUIET_SECONDS, len(self._written) / MOST_PER_SECOND)

    def wait_seconds(self, key: Hashable, now: float) -> float:
        """Until the object's figures may be written; not positive where they may be now."""
        last = self._written.get(key)
        return 0.0 if last is None else last + self.period_seconds() - now

    def wrote(self, key: Hashable, now: float) -> None:
        """The object's status has been written, figures and all."""
        self._written[key] = now

    def ended(self, key: Hashable) -> None:
        """The object is gone, or nothing of it changes any more."""
        self._written.pop(key, None)
