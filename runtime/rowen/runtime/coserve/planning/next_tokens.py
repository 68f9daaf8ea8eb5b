"""By when running requests need their next token, so that none waits longer for one, on average, than it may; pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rowen.runtime.coserve.planning.token_pace import TokenPace

_LOST_TOKENS = 1024
"""A request that is further behind than so many tokens was not computed for a minute or so: nobody waits for it."""


@dataclass(slots=True)
class _Running:
    first_at: float
    first_ridden: float
    """Seconds that riders had taken by then."""
    tokens: int
    """That it has."""
    due_at: float
    """When it needs the next one."""
    last_at: float
    """When it got the last one."""
    last_ridden: float
    """Seconds that riders had taken by then."""


class NextTokens:
    """Follows requests from their first token to their last. Times are seconds of one clock.

    A request's TPOT is the mean of its gaps. So what one gap took too long, because a prompt was computed or a step
    took longer than was predicted, can be made up for in the next ones, and is before the request ends. Each token
    gives it what the pace was then: one that changes is for what is to come.
    """

    def __init__(self, pace: TokenPace) -> None:
        self._pace = pace
        self._running: dict[str, _Running] = {}
        self._stepping: list[_Running] = []
        self._last = 0.0
        self._ridden = 0.0

    def begin(self, ended: Iterable[str], stepping: Iterable[tuple[str, int]]) -> list[tuple[float, float]]:
        """A step begins: who has ended since, and who gets one more token by it, with how many they have.

        Who has one now had it from the step before. Who was no part of some steps (preempted) need not make up for
        them. Returns the TPOT of each that ended, and how much of it riders took.
        """
        token_seconds = self._pace.token_seconds
        found = [_tpot(each) for name in ended if (each := self._running.pop(name, None)) and each.tokens > 1]
        self._stepping = []
        for name, tokens in stepping:
            each = self._running.get(name)
            # A session's next answer begins with one token again; what a step lost is no more than its own.
            if each is None or tokens == 1 < each.tokens - 1:
                if tokens != 1:
                    continue
                due_at = self._last + token_seconds
                each = self._running[name] = self._begun(tokens, due_at)
            each.due_at += (tokens - each.tokens) * token_seconds + self._last - each.last_at
            each.tokens, each.last_at, each.last_ridden = tokens, self._last, self._ridden
            self._stepping.append(each)
        return found

    def finish(self, now: float, ridden: float) -> None:
        """The step has ended; riders have taken so many seconds so far, since whenever."""
        self._last, self._ridden = now, ridden
        token_seconds = self._pace.token_seconds
        for each in self._stepping:
            each.tokens += 1
            each.due_at += token_seconds
            each.last_at, each.last_ridden = now, ridden

    def due_in(self, now: float) -> float:
        """Seconds until somebody in the step needs a token; below 0: somebody is behind, infinite: nobody is there."""
        soonest, lost = math.inf, -_LOST_TOKENS * self._pace.token_seconds
        for each in self._stepping:
            left = each.due_at - now
            if lost < left < soonest:
                soonest = left
        return soonest

    def _begun(self, tokens: int, due_at: float) -> _Running:
        return _Running(self._last, self._ridden, tokens, due_at, self._last, self._ridden)


def _tpot(each: _Running) -> tuple[float, float]:
    gaps = each.tokens - 1
    return (each.last_at - each.first_at) / gaps, (each.last_ridden - each.first_ridden) / gaps
