"""Small statistics over samples and spans of time."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowen.demo.traffic.replay import Outcome

Span = tuple[float, float]
"""A stretch of time: start and end."""


def percentile(samples: Iterable[float], percent: float) -> float:
    """The percentile, linearly interpolated between neighbours; NaN without samples. Samples may be infinite."""
    ordered = sorted(samples)
    if not ordered:
        return math.nan
    position = (len(ordered) - 1) * percent / 100
    lower = math.floor(position)
    upper = math.ceil(position)
    if ordered[lower] == ordered[upper]:
        return ordered[lower]
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (position - lower)


@dataclass(frozen=True)
class Latency:
    """TTFT and TPOT of a set of requests, in seconds; NaN where there were none."""

    requests: int
    errors: int
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float
    tpot_p99: float


def answered(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The requests that did not fail: no others count in a latency."""
    return [outcome for outcome in outcomes if outcome.error is None]


def ttfts(outcomes: Iterable[Outcome]) -> list[float]:
    """Times to first token, in seconds."""
    return [outcome.ttft for outcome in answered(outcomes) if outcome.ttft is not None]


def tpots(outcomes: Iterable[Outcome]) -> list[float]:
    """Times per output token, in seconds."""
    return [outcome.tpot for outcome in answered(outcomes) if outcome.tpot is not None]


def latency(outcomes: Sequence[Outcome]) -> Latency:
    """Percentiles over the requests; those that failed count as errors only."""
    ttft, tpot = ttfts(outcomes), tpots(outcomes)
    return Latency(
        requests=len(outcomes),
        errors=len(outcomes) - len(answered(outcomes)),
        ttft_p50=percentile(ttft, 50),
        ttft_p99=percentile(ttft, 99),
        tpot_p50=percentile(tpot, 50),
        tpot_p99=percentile(tpot, 99),
    )


def recent(outcomes: Iterable[Outcome], now: float, window: float) -> list[Outcome]:
    """Requests that ended within the last `window` seconds."""
    return [outcome for outcome in outcomes if outcome.end > now - window]


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans merged where they touch, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def clip(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """The parts of the spans between `start` and `end`."""
    return [(max(a, start), min(b, end)) for a, b in spans if b > start and a < end]


def covered(spans: Iterable[Span]) -> float:
    """Seconds that at least one span covers."""
    return sum(end - start for start, end in union(spans))
