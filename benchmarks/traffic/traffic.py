"""Requests of an online service over hours: drawn from a public trace, or made up."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

from rowen.demo.traffic.excerpt import TraceRow, load

TRACES = {name: Path(__file__).parents[1] / "traces" / f"azure-llm-2023-{name}.csv" for name in ("code", "conv")}
"""Excerpts of the Azure LLM inference trace 2023, CC BY 4.0; see `traces/README.md`."""
STRETCH_SECONDS = 120.0
DAY_SECONDS = 86400.0


def traffic(name: str, seconds: float, source: random.Random) -> list[TraceRow]:
    """So many seconds of a trace, or of `bursty`, in order of arrival."""
    if name == "bursty":
        return bursty(seconds, source)
    return resampled(load(TRACES[name]), STRETCH_SECONDS, seconds, source)


def resampled(rows: Sequence[TraceRow], stretch: float, seconds: float, source: random.Random) -> list[TraceRow]:
    """Stretches of so many seconds each, drawn from a longer trace and put one behind the other."""
    span = rows[-1].arrival - stretch
    found: list[TraceRow] = []
    for number in range(math.ceil(seconds / stretch)):
        begin = source.uniform(0.0, span)
        shift = number * stretch - begin
        found += [
            TraceRow(row.arrival + shift, row.context_tokens, row.generated_tokens)
            for row in rows
            if begin <= row.arrival < begin + stretch
        ]
    return [row for row in found if row.arrival < seconds]


def bursty(seconds: float, source: random.Random) -> list[TraceRow]:
    """Bursts of very different sizes, at random moments; ten times as many at noon as at midnight."""
    rows: list[TraceRow] = []
    start = 0.0
    while True:
        day = 0.55 - 0.45 * math.cos(2 * math.pi * start / DAY_SECONDS)
        start += source.expovariate(day / 60.0)
        if start >= seconds:
            return sorted(rows, key=lambda row: row.arrival)
        length = source.uniform(5.0, 30.0)
        for _ in range(math.ceil(source.lognormvariate(3.0, 1.0))):
            context = min(8000, math.ceil(source.lognormvariate(7.0, 0.8)))
            generated = min(2000, math.ceil(source.lognormvariate(4.5, 1.0)))
            rows.append(TraceRow(start + source.uniform(0.0, length), context, generated))
