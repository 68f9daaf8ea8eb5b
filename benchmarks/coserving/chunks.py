"""When an engine grants a chunk of fine-tuning: when each request that it has can afford to wait for it. Pure."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

PART = 0.9
"""Of the bound, that chunks use up. A prompt that comes to an engine makes one step as long as several: with nothing
left a request that is about to end would be late."""
_BURST_PART = 0.25
"""Of the bound of the first token, that chunks between two steps use up: nobody sees who comes meanwhile."""
_CHUNKS = 16
_REMEMBERED_SECONDS = 10.0


@dataclass(frozen=True)
class Answering:
    """A request that an engine has."""

    seconds: float
    """Since its first token."""
    tokens: int
    """By now; 0: it waits for the first one."""


def affordable(requests: Iterable[Answering], chunk_seconds: float, step_seconds: float, bound_seconds: float) -> bool:
    """Whether one more chunk may come before the next step.

    So that no request waits for its first token, and the mean time between the tokens of each is within `PART` of the
    bound when its next one has come.
    """
    most, more = PART * bound_seconds, chunk_seconds + step_seconds
    return all(one.tokens > 0 and one.seconds + more <= one.tokens * most for one in requests)


def may_go_on(burst_seconds: float, chunk_seconds: float, ttft_bound_seconds: float) -> bool:
    """Whether a burst of chunks between two steps, which has taken that long, may have one more."""
    return burst_seconds + chunk_seconds <= _BURST_PART * ttft_bound_seconds


class Chunks:
    """How long the last ones took, as they were granted. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._last: deque[tuple[float, float]] = deque(maxlen=_CHUNKS)

    def observe(self, begun: float, ended: float) -> None:
        """One was granted."""
        self._last.append((ended, ended - begun))

    def expected(self, now: float) -> float:
        """How long the next one takes at most, but for a stall: as long as the second longest of the last ones.

        Where they are long ago, as the shortest of them: a stall is not to end them all. 0 where none was granted yet.
        """
        recent = sorted(seconds for ended, seconds in self._last if now - ended < _REMEMBERED_SECONDS)
        if recent:
            return recent[max(0, len(recent) - 2)]
        return min((seconds for _, seconds in self._last), default=0.0)
