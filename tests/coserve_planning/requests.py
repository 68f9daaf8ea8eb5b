"""Requests of an engine that is simulated."""

import random

from rowen.runtime.coserve.planning.next_tokens import NextTokens
from rowen.runtime.coserve.planning.token_pace import TokenPace


class Requests:
    """One to eight, of 16 to 64 tokens each; or as they come at random at a rate, which is the same for any engine."""

    def __init__(self, draw: random.Random, rate: float | None, pace: TokenPace) -> None:
        self._draw, self._rate = draw, rate
        self._count = 0
        self._next_at = 0.0
        self.followed = NextTokens(pace)
        self.tpots: list[float] = []
        """Of those that have ended, by a clock of its own."""
        self.tokens: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._first: dict[str, float] = {}

    def come(self, now: float) -> tuple[float, int]:
        """Some have their first token. Returns when, later where there was nothing to do, and how many."""
        before = self._count
        if self._rate is None:
            while not self.tokens or (len(self.tokens) < 8 and self._draw.random() < 0.1):
                self._take(now)
        else:
            now = now if self.tokens else max(now, self._next_at)
            while self._next_at <= now:
                self._next_at += self._draw.expovariate(self._rate)
                self._take(now)
        return now, self._count - before

    def _take(self, now: float) -> None:
        self._count += 1
        name = str(self._count)
        self.tokens[name], self._left[name], self._first[name] = 1, self._draw.randint(15, 63), now

    def step(self, now: float, ridden: float) -> list[str]:
        """Each has one token more. Returns who has ended."""
        self.followed.finish(now, ridden)
        for name in self.tokens:
            self.tokens[name] += 1
            self._left[name] -= 1
        ended = [name for name, left in self._left.items() if left == 0]
        for name in ended:
            self.tpots.append((now - self._first.pop(name)) / (self.tokens[name] - 1))
            del self.tokens[name], self._left[name]
        return ended
