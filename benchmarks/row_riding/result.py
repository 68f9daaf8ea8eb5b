"""One arm under one load, once, and what all of them say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from coserving.result import Bounds
from reporting.repeat import values_of
from reporting.report import Figures, Missing

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.statistics import percentile

__all__ = ["Bounds", "Point", "Run", "arm_figures", "main_figures", "points", "versus"]

ATTAINMENT = 0.95
"""Part of the requests for which a service is to keep its bounds; as the terms say on which rows ride."""


@dataclass(frozen=True)
class Run:
    """One arm under one load, once."""

    arm: str
    kind: str
    """Of the arm, whatever rows it has under way."""
    load: float
    """Requests in flight on average, were none to wait for another; the load's name."""
    rate: float
    """Requests a second."""
    block: int
    seconds: float
    tokens: float
    """Of rows, read and written."""
    outcomes: tuple[Outcome, ...]

    def row(self, bounds: Bounds) -> dict[str, Any]:
        """All that the figures are made of."""
        own = {key: value for key, value in asdict(self).items() if key != "outcomes"}
        times = {
            f"{metric}_ms": [round(value * 1000, 3) for value in values_of(self.outcomes, metric) if value < math.inf]
            for metric in ("ttft", "tpot")
        }
        errors = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        kept = sum(map(bounds.kept, self.outcomes))
        counts = {"requests": len(self.outcomes), "errors": len(errors), "error": errors[0] if errors else None}
        return own | counts | {"kept": kept} | times


@dataclass(frozen=True)
class Point:
    """An arm under a load, over its repeats: speed is a median, all else over all requests."""

    kind: str
    speed: float
    """Tokens of rows a second."""
    attainment: float
    """Part of the requests that kept the bounds."""
    ttft: tuple[float, float]
    """50th and 99th percentile, in seconds."""
    tpot: tuple[float, float]


def points(runs: Sequence[Run], bounds: Bounds) -> dict[tuple[str, float], Point]:
    """By arm and load."""
    found = {}
    for key in dict.fromkeys((run.arm, run.load) for run in runs):
        own = [run for run in runs if (run.arm, run.load) == key]
        outcomes = [outcome for run in own for outcome in run.outcomes]
        ttft, tpot = (
            (percentile(values_of(outcomes, metric), 50), percentile(values_of(outcomes, metric), 99))
            for metric in ("ttft", "tpot")
        )
        kept = sum(map(bounds.kept, outcomes)) / len(outcomes) if outcomes else 1.0
        found[key] = Point(own[0].kind, median(run.tokens / run.seconds for run in own), kept, ttft, tpot)
    return found


def versus(table: Mapping[tuple[str, float], Point], kind: str, load: float) -> float | Missing:
    """Rowen's rows a second over those of another kind, at the number of its rows at which it has most done.

    Missing where either does not keep the bounds as often as is wanted: Rowen's speed is no merit then.
    """
    own = next(point for (_, at), point in table.items() if at == load and point.kind == "rowen")
    if own.attainment < ATTAINMENT:
        return Missing(f"Rowen keeps the bounds for {own.attainment:.1%} of the requests only")
    others = [point for (_, at), point in table.items() if at == load and point.kind == kind]
    equal = [point.speed for point in others if point.attainment >= ATTAINMENT]
    if not equal:
        return Missing(f"with none of its numbers of rows are the bounds kept for {ATTAINMENT:.0%} of the requests")
    return own.speed / max(equal) if max(equal) else Missing("no row was worked on")


def main_figures(runs: Sequence[Run], bounds: Bounds, riding: str) -> Figures:
    """Over all loads; `riding`: the arm of Rowen's."""
    table = points(runs, bounds)
    loads = sorted({run.load for run in runs})
    figures: dict[str, tuple[float | Missing, str]] = {
        "offline_vs_priority_at_slo": (_least(table, "priority", loads), "ratio"),
        "offline_vs_gateway_at_slo": (_least(table, "gateway", loads), "ratio"),
        "offline_vs_preempt": (_least(table, "preempt", loads), "ratio"),
        "slo_attainment": (min(table[riding, load].attainment for load in loads), "fraction"),
        "slo_attainment_alone": (min(table["alone", load].attainment for load in loads), "fraction"),
    }
    for metric in ("ttft", "tpot"):
        for place, percent in enumerate((50, 99)):
            increases = [
                getattr(table[riding, load], metric)[place] / getattr(table["alone", load], metric)[place] - 1
                for load in loads
            ]
            figures[f"{metric}_p{percent}_increase"] = (_finite(max(increases)), "fraction")
    for load in loads:
        figures[f"offline_vs_priority_load_{load:g}"] = (versus(table, "priority", load), "ratio")
    return figures | dict(arm_figures(table, riding))


def _least(table: Mapping[tuple[str, float], Point], kind: str, loads: Sequence[float]) -> float | Missing:
    """Over the loads at which the other kind keeps the bounds as often as is wanted.

    Missing where Rowen does not at one of them: to leave it out would make a miss raise the figure.
    """
    missed = [load for load in loads if _kept(table, kind, load) and not _kept(table, "rowen", load)]
    if missed:
        return Missing(f"Rowen misses the bounds where {kind} keeps them: load {', '.join(f'{at:g}' for at in missed)}")
    ratios = [versus(table, kind, load) for load in loads]
    known = [ratio for ratio in ratios if not isinstance(ratio, Missing)]
    if known:
        return min(known)
    reasons = [
        f"load {load:g}: {ratio.reason}"
        for load, ratio in zip(loads, ratios, strict=True)
        if isinstance(ratio, Missing)
    ]
    return Missing(f"there is no load at which both can be compared ({'; '.join(reasons)})")


def _kept(table: Mapping[tuple[str, float], Point], kind: str, load: float) -> bool:
    return any(point.attainment >= ATTAINMENT for (_, at), point in table.items() if at == load and point.kind == kind)


def arm_figures(table: Mapping[tuple[str, float], Point], arm: str) -> Figures:
    """Of one arm, by load."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for (name, load), point in table.items():
        if name != arm:
            continue
        figures |= {
            f"offline_load_{load:g}": (point.speed, "tokens/s"),
            f"attainment_load_{load:g}": (point.attainment, "fraction"),
        }
        for metric, (middle, high) in (("ttft", point.ttft), ("tpot", point.tpot)):
            figures[f"{metric}_p50_load_{load:g}"] = (_finite(middle * 1000), "ms")
            figures[f"{metric}_p99_load_{load:g}"] = (_finite(high * 1000), "ms")
    return figures


def _finite(value: float) -> float | Missing:
    return value if math.isfinite(value) else Missing("requests failed, or none has one")
