"""What requests wait for their first token, and how much of it is riders' doing."""

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowen.runtime.vllm.rows.marker import is_row

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput

_MOST_STRETCHES = 256
"""Kept for requests that came before they are told of."""
_LONGEST_WAIT_SECONDS = 60.0
"""Of a request before it is taken in; more is a clock that was set."""


def waited_seconds(wall_seconds: float) -> float:
    """Of a request that came at that time of the system's clock."""
    return min(max(0.0, time.time() - wall_seconds), _LONGEST_WAIT_SECONDS)


@dataclass(slots=True)
class Arrival:
    """A request that has no token yet."""

    at: float
    """Seconds, monotonic."""
    prompt_tokens: int
    ridden: float
    """Seconds that the engine had worked for riders by then."""


class FirstTokens:
    """Follows online requests from their arrival. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, Arrival] = {}
        self._next: list[Arrival] = []
        self._stretches: deque[tuple[float, float]] = deque(maxlen=_MOST_STRETCHES)
        self._ridden = 0.0

    def arrived(self, name: str, at: float, prompt_tokens: int) -> None:
        """A request has come."""
        if not is_row(name):
            since = sum(ended - max(at, begun) for begun, ended in self._stretches if ended > at)
            self._waiting[name] = Arrival(at, prompt_tokens, self._ridden - since)

    def begin(self, output: "SchedulerOutput") -> None:
        """A step begins; the requests whose prompt it ends have their first token after it."""
        for name in output.finished_req_ids:
            self._waiting.pop(name, None)
        self._next = []
        if not self._waiting:
            return
        cached = output.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        computed |= {request.req_id: request.num_computed_tokens for request in output.scheduled_new_reqs}
        for name, tokens in output.num_scheduled_tokens.items():
            arrival = self._waiting.get(name)
            if arrival is not None and computed.get(name, 0) + tokens >= arrival.prompt_tokens:
                self._next.append(self._waiting.pop(name))

    def ridden(self, begun: float, ended: float) -> None:
        """So long the engine worked for riders."""
        self._stretches.append((begun, ended))
        self._ridden += ended - begun
        # Who has come meanwhile has waited for a part of it.
        for arrival in reversed(self._waiting.values()):
            if arrival.at <= begun:
                break
            arrival.ridden += min(arrival.at, ended) - begun

    def finish(self, now: float) -> list[tuple[float, float]]:
        """The step has ended: what each waited for its first token, and how much of that for riders."""
        found = [(now - arrival.at, self._ridden - arrival.ridden) for arrival in self._next]
        self._next = []
        return found
