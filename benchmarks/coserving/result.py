"""One arm under one load, once, and what all of them say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from reporting.repeat import values_of
from reporting.report import Figures, Missing

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.statistics import percentile

LEAST_ATTAINMENT = 0.9
"""Of requests that a service is to keep its bounds for (FlexLLM, section 8)."""
SEPARATE = "separate_"
"""Begins the names of the arms in which the machine is divided."""


@dataclass(frozen=True)
class Bounds:
    """Within which a request is to be answered; seconds."""

    ttft: float
    tpot: float

    def kept(self, outcome: Outcome) -> bool:
        """By a request; one that failed keeps none."""
        if outcome.error is not None or outcome.ttft is None:
            return False
        return outcome.ttft <= self.ttft and (outcome.tpot is None or outcome.tpot <= self.tpot)


def kept(outcomes: Sequence[Outcome], bounds: Bounds) -> float:
    """Part of the requests that kept them; 1 where there were none."""
    return sum(map(bounds.kept, outcomes)) / len(outcomes) if outcomes else 1.0


@dataclass(frozen=True)
class Run:
    """One arm under one load, once."""

    arm: str
    load: float
    """Requests in flight on average, were none to wait for another; the load's name."""
    rate: float
    """Requests a second."""
    block: int
    seconds: float
    """For which requests came."""
    tokens: float
    """Of fine-tuning."""
    outcomes: tuple[Outcome, ...]
    served_tokens: float = 0.0
    """Of requests, read and written in that time."""
    online_seconds: float | None = None
    """That the engine worked for requests: in steps, less what riders added to them. None: nothing rode in it."""
    held_steps: float | None = None
    """That prompts were held back from. None: as above."""

    def row(self, bounds: Bounds) -> dict[str, Any]:
        """All that the figures are made of."""
        own = {key: value for key, value in asdict(self).items() if key != "outcomes"}
        times = {
            f"{metric}_ms": [round(value * 1000, 3) for value in values_of(self.outcomes, metric) if value < math.inf]
            for metric in ("ttft", "tpot")
        }
        errors = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        counts = {"requests": len(self.outcomes), "errors": len(errors), "error": errors[0] if errors else None}
        return own | counts | {"attainment": kept(self.outcomes, bounds)} | times


@dataclass(frozen=True)
class Point:
    """An arm under a load, over its repeats: speed is a median, all else over all requests."""

    speed: float
    """Tokens of fine-tuning a second."""
    attainment: float
    ttft_p99: float
    tpot_p99: float
    requests: int
    errors: int


def points(runs: Sequence[Run], bounds: Bounds) -> dict[tuple[str, float], Point]:
    """By arm and load."""
    found = {}
    for key in dict.fromkeys((run.arm, run.load) for run in runs):
        own = [run for run in runs if (run.arm, run.load) == key]
        outcomes = [outcome for run in own for outcome in run.outcomes]
        found[key] = Point(
            speed=median(run.tokens / run.seconds for run in own),
            attainment=kept(outcomes, bounds),
            ttft_p99=percentile(values_of(outcomes, "ttft"), 99),
            tpot_p99=percentile(values_of(outcomes, "tpot"), 99),
            requests=len(outcomes),
            errors=sum(outcome.error is not None for outcome in outcomes),
        )
    return found


def versus(table: Mapping[tuple[str, float], Point], load: float, prefix: str = SEPARATE) -> float | Missing:
    """Rowen's fine-tuning over that of the arms whose names begin so, at equal attainment.

    Of those that keep the bounds as often as Rowen does, or 90 % of the time, the one that learns fastest;
    where none does, the one that keeps them most often.
    """
    own = table["rowen", load]
    others = [point for (arm, at), point in table.items() if arm.startswith(prefix) and at == load]
    least = min(LEAST_ATTAINMENT, own.attainment)
    equal = [point for point in others if point.attainment >= least]
    if equal:
        best = max(equal, key=lambda point: point.speed)
    else:
        best = max(others, key=lambda point: point.attainment)
    return own.speed / best.speed if best.speed else Missing(f"{prefix}* learned nothing")


def main_figures(runs: Sequence[Run], bounds: Bounds, no_load_speed: float) -> Figures:
    """Rowen's, over all loads. `no_load_speed`: fine-tuning tokens a second without any request."""
    table = points(runs, bounds)
    loads = sorted({run.load for run in runs})
    ratios = {load: versus(table, load) for load in loads}
    known = [ratio for ratio in ratios.values() if not isinstance(ratio, Missing)]
    peak = table["rowen", loads[-1]].speed / no_load_speed if no_load_speed else Missing("it learned nothing")
    return {
        "finetune_vs_separate": (min(known) if known else ratios[loads[0]], "ratio"),
        "slo_attainment": (min(table["rowen", load].attainment for load in loads), "fraction"),
        "slo_attainment_alone": (min(table["alone", load].attainment for load in loads), "fraction"),
        "peak_fraction": (peak, "fraction"),
        "no_load_tokens_per_second": (no_load_speed, "tokens/s"),
        **{f"finetune_vs_separate_load_{load:g}": (ratio, "ratio") for load, ratio in ratios.items()},
        **arm_figures(table, "rowen"),
    }


def arm_figures(table: Mapping[tuple[str, float], Point], arm: str) -> Figures:
    """Of one arm, by load."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for (name, load), point in table.items():
        if name == arm:
            figures |= {
                f"finetune_load_{load:g}": (point.speed, "tokens/s"),
                f"attainment_load_{load:g}": (point.attainment, "fraction"),
                f"ttft_p99_load_{load:g}": (milliseconds(point.ttft_p99), "ms"),
                f"tpot_p99_load_{load:g}": (milliseconds(point.tpot_p99), "ms"),
                f"errors_load_{load:g}": (point.errors, "requests"),
            }
    return figures


def milliseconds(seconds: float) -> float | Missing:
    """Of a latency that may be infinite or none."""
    return seconds * 1000 if math.isfinite(seconds) else Missing("requests failed, or none has one")
