"""How long a write is held back that the API server has not taken."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from rowen.kube.errors import KubeError, RefusedError

_PAUSE_LIMIT_SECONDS = 60.0
_REFUSED_LIMIT_SECONDS = 300.0
_OTHER_LIMIT_SECONDS = 10.0
_MOST_WAITS = 16
_UNKNOWN_CALLER, _GONE = 401, 404
"""HTTP status codes."""


def judged(error: KubeError) -> bool:
    """Whether the API server refused what was written: not for being busy, for a job that is gone or for who writes.

    A role may be missing while a release is upgraded: that would count against every job of a pass.
    """
    if not isinstance(error, RefusedError):
        return False
    return not (error.passes or error.lacks_right or error.status in (_UNKNOWN_CALLER, _GONE))


@dataclass(frozen=True, slots=True)
class Wait:
    """Failures of writes about the same."""

    gist: Hashable
    """What they were about; None where what was written was not refused (`judged`)."""
    count: int
    until: float
    """Monotonic seconds before which it is not written again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Writes of one job that failed, since one was last taken. Times are monotonic seconds."""

    waits: tuple[Wait, ...] = ()
    """The last that failed is the last here."""
    count: int = 0
    other: float = float("-inf")
    """Before this nothing is written."""

    def until(self, gist: Hashable) -> float:
        """Before when a write about `gist` has to wait. One without an answer holds everything."""
        own = [wait.until for wait in self.waits if wait.gist == gist]
        unanswered = [wait.until for wait in self.waits if wait.gist is None]
        return max([*(own or [self.other]), *unanswered])

    def holds(self, gist: Hashable, now: float) -> bool:
        """Whether a write about `gist` has to wait."""
        return now < self.until(gist)

    def forgiven(self, gist: Hashable) -> "Refusal | None":
        """After a write about `gist` was taken: what else has been refused stays so; None when that is nothing."""
        left = tuple(wait for wait in self.waits if wait.gist not in (None, gist))
        return replace(self, waits=left, count=0) if left else None


def refused(previous: Refusal | None, gist: Hashable, now: float) -> Refusal:
    """One more failure: the wait doubles each time, up to a limit.

    What the API server has refused it will refuse again, so that waits longest; anything else may well be taken, and
    waits by its own failures. A write that got no answer (`gist` is None) says nothing about the next, so everything
    waits.
    """
    before = previous or Refusal()
    same = next((wait.count for wait in before.waits if wait.gist == gist), 0) + 1
    others = tuple(wait for wait in before.waits if wait.gist != gist)
    limit = _PAUSE_LIMIT_SECONDS if gist is None else _REFUSED_LIMIT_SECONDS
    wait = Wait(gist, same, now + _doubled(same, limit))
    count = before.count + 1
    return Refusal((*others, wait)[-_MOST_WAITS:], count, now + _doubled(count, _OTHER_LIMIT_SECONDS))


def _doubled(count: int, limit: float) -> float:
    return float(min(limit, 2.0 ** min(count, 30)))
