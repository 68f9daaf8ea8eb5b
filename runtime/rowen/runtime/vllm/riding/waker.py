"""How an engine that waits for requests is told that a rider has come."""

from collections.abc import Callable


class Waker:
    """Wakes an engine that waits, once each time. One that computes looks by itself, before its next step."""

    def __init__(self) -> None:
        self._wake: Callable[[], None] | None = None

    def wake(self) -> None:
        """On any thread."""
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def reaches(self, wake: Callable[[], None]) -> None:
        """The engine is about to wait, and looks once more before it does: from now on that wakes it."""
        self._wake = wake

    def rest(self) -> None:
        """It computes. A wake-up would be taken for a request that knocks."""
        self._wake = None
