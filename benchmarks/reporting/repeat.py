"""One arm under the traffic, once: what is recorded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reporting.blocks import Block

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.statistics import answered, percentile

METRICS = ("ttft", "tpot")
PERCENTS = (50, 99)


@dataclass(frozen=True)
class Repeat:
    """One arm under the traffic, once. Times in seconds."""

    arm: str
    block: Block
    outcomes: tuple[Outcome, ...]
    """In order of arrival."""
    seconds: float
    idle: float
    """Without a request in flight, as the client saw it."""
    gate_open: float
    """With the managed gate open."""
    tokens: float | None
    """Of the tenant; None without one."""
    preemptions: int
    stops: tuple[float, ...]
    """From each close of the gate until the tenant stood still."""
    per_request: tuple[int, ...]
    """Preemptions that each request met."""
    backstops: int
    cooldown: float
    """For which the device had to be idle before the gate opened again, at the end of the repeat."""

    def percentile(self, metric: str, percent: float) -> float:
        """In seconds; infinite where it is that of a request that failed, NaN where no request has the metric."""
        return percentile(values_of(self.outcomes, metric), percent)

    @property
    def errors(self) -> int:
        """Requests that failed."""
        return sum(outcome.error is not None for outcome in self.outcomes)

    @property
    def lateness(self) -> list[float]:
        """How much later than due the client sent each request, in seconds."""
        return [outcome.lateness for outcome in self.outcomes]

    def row(self, seed: int) -> dict[str, Any]:
        """All that the figures are made of."""
        return {
            "arm": self.arm,
            "block": self.block.number,
            "order": self.block.arms.index(self.arm),
            "seed": seed,
            "start_s": self.block.start,
            "seconds": self.seconds,
            "idle_s": self.idle,
            "requests": len(self.outcomes),
            "errors": self.errors,
            **{
                f"{metric}_ms_p{percent}": _milliseconds(self.percentile(metric, percent))
                for metric in METRICS
                for percent in PERCENTS
            },
            "client_lateness_ms_p99": _milliseconds(percentile(self.lateness, 99)),
            "tokens": self.tokens,
            "preemptions": self.preemptions,
            "stop_ms": [_milliseconds(stop) for stop in self.stops],
            **{
                f"{metric}_ms": [_milliseconds(value) for value in values_of(answered(self.outcomes), metric)]
                for metric in METRICS
            },
        }


def values_of(outcomes: Sequence[Outcome], metric: str) -> list[float]:
    """Of `ttft` or `tpot`, in seconds, of the requests that have one; of those that failed it is infinite."""
    found = (getattr(outcome, metric) if outcome.error is None else math.inf for outcome in outcomes)
    return [value for value in found if value is not None]


def _milliseconds(seconds: float) -> float | None:
    return round(seconds * 1000, 4) if math.isfinite(seconds) else None
