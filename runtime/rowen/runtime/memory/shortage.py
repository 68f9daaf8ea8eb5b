"""Work that waits for memory, told in the log."""

from rowen.runtime.log import get_logger

log = get_logger()

GRACE_SECONDS = 1.0
"""Waits as short as that are the rule: memory comes a moment after it was asked for."""
REPEAT_SECONDS = 60.0


class Shortage:
    """Says that something waits for memory of the device's pool, and how much: after a second, then once a minute."""

    def __init__(self, what: str) -> None:
        """`what`: the line of the log."""
        self._what = what
        self._since: float | None = None
        self._said: float | None = None

    def lasts(self, now: float, *, handle_bytes: int, handles_needed: int, handles_granted: int) -> None:
        """It still does. `now`: seconds, monotonic clock."""
        if self._since is None:
            self._since = now
        if now - self._since < GRACE_SECONDS or (self._said is not None and now - self._said < REPEAT_SECONDS):
            return
        self._said = now
        log.warning(
            self._what,
            handles_needed=handles_needed,
            handles_granted=handles_granted,
            handle_bytes=handle_bytes,
            waited_seconds=round(now - self._since),
        )

    def ends(self) -> None:
        """There is enough. What was said is not said again before its time: memory may come and go."""
        self._since = None
