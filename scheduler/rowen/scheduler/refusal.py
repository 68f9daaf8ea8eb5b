"""How long a write is held back that the API server has not taken."""

from dataclasses import dataclass

_PAUSE_LIMIT_SECONDS = 60.0
_REFUSED_LIMIT_SECONDS = 300.0
_OTHER_LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Writes of one job that failed in a row. Times are monotonic seconds."""

    count: int
    gist: object
    """What the last one was about; None where it was not refused: it got no answer, or the API server was busy."""
    other: float
    """Before this nothing is written."""
    same: float
    """Before this the same is not written."""

    def holds(self, gist: object, now: float) -> bool:
        """Whether a write about `gist` has to wait."""
        return now < (self.same if self.gist in (None, gist) else self.other)


def refused(previous: Refusal | None, gist: object, now: float) -> Refusal:
    """One more failure: the wait doubles each time, up to a limit.

    What the API server has refused it will refuse again, so that waits longest; anything else may well be taken. A
    write that got no answer (`gist` is None) says nothing about the next, so everything waits.
    """
    count = (previous.count if previous else 0) + 1
    limit = _PAUSE_LIMIT_SECONDS if gist is None else _REFUSED_LIMIT_SECONDS
    wait = min(limit, 2.0 ** min(count, 30))
    return Refusal(count, gist, now + min(wait, _OTHER_LIMIT_SECONDS), now + wait)
