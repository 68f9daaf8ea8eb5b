"""Which engine serves from memory of its own, although it may have a part of the pool. No I/O."""

from collections.abc import Iterable

PATIENCE_SECONDS = 10.0
"""As long as the library asks for memory at most. A process that comes in asks at once, or has its memory already."""


class Fallback:
    """Of one device.

    An engine that no agent has answered in time keeps its cache in memory of its own for as long as it runs, and is let
    in by the next agent nevertheless.
    """

    def __init__(self) -> None:
        self._uid = ""
        self._since = 0.0

    def look(self, uid: str, have_memory: Iterable[bool], now: float) -> bool:
        """Whether the engine of that pod is such a one.

        `have_memory`: of each of the pod's processes that have come in, whether it has memory of the pool, or had it of
        an earlier agent; one is enough. `now`: seconds, monotonic clock.
        """
        processes = list(have_memory)
        if not processes or any(processes):
            self._uid = ""
            return False
        if self._uid != uid:
            self._uid, self._since = uid, now
        return now - self._since >= PATIENCE_SECONDS
