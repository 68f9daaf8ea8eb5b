"""From requests to the tokens that their KV caches hold: an engine's need of memory over time.

The engine prefills one request after another, in order of arrival, and decodes all others meanwhile, each at the same
speed. A request holds its prompt from the start of its prefill and one more token with each that it writes, until it
has written them all. There is no limit to what is held: it is the need, not what a pool of some size could meet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rowen.demo.traffic.excerpt import TraceRow


@dataclass(frozen=True)
class Engine:
    """How fast an engine is. Tokens per second."""

    prefill: float
    """Of the engine."""
    decode: float
    """Of each sequence."""


@dataclass(frozen=True)
class Holding:
    """What one request holds. Times in seconds."""

    start: float
    """Its prefill starts, and the prompt is held."""
    decode_start: float
    end: float
    prompt_tokens: int
    output_tokens: int

    def most(self, until: float) -> int:
        """Most tokens held at any moment before `until`."""
        if until <= self.start:
            return 0
        decoded = (min(until, self.end) - self.decode_start) / (self.end - self.decode_start)
        return self.prompt_tokens + math.ceil(self.output_tokens * max(0.0, decoded))


def holdings(requests: Sequence[TraceRow], engine: Engine) -> list[Holding]:
    """What each of the requests holds, in order of arrival."""
    found, free_from = [], 0.0
    for request in requests:
        start = max(request.arrival, free_from)
        free_from = start + request.context_tokens / engine.prefill
        end = free_from + request.generated_tokens / engine.decode
        found.append(Holding(start, free_from, end, request.context_tokens, request.generated_tokens))
    return found


def tokens_held(held: Sequence[Holding], period: float, seconds: float) -> list[int]:
    """Most tokens that may be held at once in each period (seconds) of so many seconds; requests overlap in it."""
    use = [0] * math.ceil(seconds / period)
    for holding in held:
        for index in range(math.floor(holding.start / period), min(len(use), math.ceil(holding.end / period))):
            use[index] += holding.most((index + 1) * period)
    return use
