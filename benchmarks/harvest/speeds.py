"""How fast the engine is: what its steps take, from requests that are sent to it."""

from statistics import median

from colocation.measure import replayed
from harvest.load import MAX_TOKENS, OUTPUT_TOKENS, VOCABULARY, Speeds

from rowen.demo.traffic.replay import Outcome
from rowen.demo.traffic.scaling import Request

_SHORT, _LONG = 8, MAX_TOKENS - OUTPUT_TOKENS
_TOGETHER = 8
"""Sequences at once, of as many as the pool has room for at any length."""
_REPEATS = 7
_FIRST_TOKEN = 8
"""Special tokens are below."""


def measured_speeds(url: str) -> Speeds:
    """Of a server that nobody else uses, and that has served before. Raises `RuntimeError` when a request fails."""
    numbers = iter(range(10**6))

    def prompt(length: int) -> tuple[int, ...]:
        # All differ, so that no prefix is known.
        number = next(numbers)
        return tuple(
            _FIRST_TOKEN + (number * 7919 + place * (number + 1)) % (VOCABULARY - _FIRST_TOKEN)
            for place in range(length)
        )

    def ask(length: int, together: int) -> list[Outcome]:
        found = replayed(url, [Request(0.0, prompt(length), OUTPUT_TOKENS) for _ in range(together)], 0.0)
        for outcome in found:
            if outcome.error is not None:
                raise RuntimeError(f"the engine's speed cannot be measured: {outcome.error}")
        return found

    ask(_LONG, _TOGETHER)
    first = {length: median(_first(ask(length, 1)) for _ in range(_REPEATS)) for length in (_SHORT, _LONG)}
    each = {count: median(_each(ask(_SHORT, count)) for _ in range(_REPEATS)) for count in (1, _TOGETHER)}
    sequence = max(0.0, (each[_TOGETHER] - each[1]) / (_TOGETHER - 1))
    return Speeds(
        step=each[1] - sequence,
        prompt_token=max(0.0, (first[_LONG] - first[_SHORT]) / (_LONG - _SHORT)),
        sequence=sequence,
    )


def _first(outcomes: list[Outcome]) -> float:
    return median(outcome.ttft for outcome in outcomes if outcome.ttft is not None)


def _each(outcomes: list[Outcome]) -> float:
    return median(outcome.tpot for outcome in outcomes if outcome.tpot is not None)
