"""Training and serving mixed on pipeline-parallel nodes: LeMix's policies against separate clusters, simulated.

Four nodes of two stages each, as in LeMix (section VI): 1,000 tasks arrive at a rate, as a Poisson process or with the
clock of a public trace, a part of them training tasks. Every arm gets the same tasks and the same noise. The policies
are those of `rowen.scheduler.lemix`; what a stage really takes, and memory, are the simulation's (`mixing/setup.py`).

    figures             LeMix
    separate_N          N % of the nodes train, the others serve
    round_robin         all tasks in turn over all nodes (NaiveMix)
    lowest_utilisation  the node that was busy least so far, known at no cost (Mix-LUF)
    without_PART        LeMix without one of its parts, on the ablation's points only

The separate cluster that LeMix is compared with at a point is the paper's: ⌊N·α + 0.5⌋ nodes train, at least one of
each kind. The grid is run with some seeds; the best point of each figure is chosen by their medians and run again with
as many other seeds, whose median the figure is. For the SLO only points count where the separate cluster keeps it for a
tenth of the requests: what is many times nothing says nothing.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import mean, median
from typing import Any

from mixing.setup import LLAMA_13B, LLAMA_70B, NODES
from mixing.simulation import ABLATIONS, BASELINES, Outcome, Simulation
from mixing.workload import Point, drawn
from reporting.bars import Bars
from reporting.blocks import LEAST_BLOCKS, median_interval
from reporting.report import Figures, Missing, print_report, report

RATES = (5.0, 10.0, 15.0, 20.0, 40.0)
TRACED_RATES = (10.0, 20.0)
ABLATED_RATES = (10.0, 20.0)
TRAINING = (0.25, 0.5, 0.75)
LEAST_ATTAINMENT = 0.1
BARS: Bars = {
    "throughput_vs_separate": (3.53, "at least"),
    "slo_vs_separate": (2.12, "at least"),
    "plan_ms_mean": (0.14, "at most"),
}
"""The paper's: its best points over separate clusters, and Table III."""
PLAN_POINT = Point("poisson", LLAMA_70B, 50.0, 0.5)
"""As in the paper's Table III."""

Runs = Mapping[str, Sequence[Outcome]]
"""Arm → outcome of each seed."""
Rows = dict[str, tuple[float | Missing, str]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """LeMix over its separate cluster, by seed."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """Median."""
        return median(self.values)


def separate(training: float) -> str:
    """The paper's partition for a training rate."""
    nodes = min(NODES - 1, max(1, math.floor(NODES * training + 0.5)))
    return f"separate_{100 * nodes // NODES}"


def grid(*, quick: bool) -> list[Point]:
    """All points. One model: another one's times are these, slower or faster, so that its rates are others."""
    if quick:
        return [
            Point(arrivals, LLAMA_13B, rate, 0.5) for arrivals in ("poisson", "code", "conv") for rate in TRACED_RATES
        ]
    synthetic = [Point("poisson", LLAMA_13B, rate, part) for rate, part in product(RATES, TRAINING)]
    traced = product(("code", "conv"), TRACED_RATES)
    return synthetic + [Point(trace, LLAMA_13B, rate, 0.5) for trace, rate in traced]


def ablated(point: Point) -> bool:
    """Whether the arms without one part run there: Poisson arrivals, half of them training."""
    return point.arrivals == "poisson" and point.training == 0.5 and point.rate in ABLATED_RATES


def measured(point: Point, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
    """All arms of a point."""
    arms = (*BASELINES, "lemix", *(ABLATIONS if ablated(point) else ()))
    workloads = [drawn(point, seed) for seed in seeds]
    return {arm: [Simulation(workload, arm).run() for workload in workloads] for arm in arms}


def throughput_ratio(point: Point, runs: Runs) -> Ratio:
    """By seed."""
    pairs = zip(runs["lemix"], runs[separate(point.training)], strict=True)
    return Ratio(tuple(ours.throughput / theirs.throughput for ours, theirs in pairs))


def slo_ratio(point: Point, runs: Runs, least: float = LEAST_ATTAINMENT) -> Ratio | None:
    """By seed; None where the separate cluster keeps too little."""
    theirs = [outcome.attainment for outcome in runs[separate(point.training)]]
    if min(theirs) == 0.0 or median(theirs) < least:
        return None
    return Ratio(tuple(ours.attainment / other for ours, other in zip(runs["lemix"], theirs, strict=True)))


def _with_interval(name: str, values: Sequence[float], unit: str) -> Rows:
    interval = median_interval(values)
    missing = Missing(f"{len(values)} of the {LEAST_BLOCKS} seeds that an interval takes")
    return {
        name: (median(values), unit),
        f"{name}_low": (interval.low if interval else missing, unit),
        f"{name}_high": (interval.high if interval else missing, unit),
    }


def _arm_rows(runs: Mapping[Point, Runs], arm: str) -> Rows:
    """Means over the points, of the points' medians."""
    points = [point for point in runs if arm in runs[point]]
    return {
        name: (mean(median(getattr(outcome, name) for outcome in runs[point][arm]) for point in points), unit)
        for name, unit in (("throughput", "tasks/s"), ("attainment", "fraction"), ("utilisation", "fraction"))
    }


def _ablation_rows(runs: Mapping[Point, Runs], arm: str) -> Rows:
    """An arm over LeMix, on the ablation's points: means of the points' medians."""
    points = [point for point in runs if ablated(point)]
    found: Rows = {}
    for name in ("throughput", "attainment"):
        of = {
            which: mean(median(getattr(outcome, name) for outcome in runs[point][which]) for point in points)
            for which in (arm, "lemix")
        }
        found[f"ablation_{name}_vs_lemix"] = (of[arm] / of["lemix"], "ratio")
    return found


def grid_row(point: Point, runs: Runs) -> dict[str, Any]:
    """All that the figures are made of, of one point."""
    ratios = {"throughput_vs_separate": throughput_ratio(point, runs), "slo_vs_separate": slo_ratio(point, runs)}
    intervals = {name: median_interval(ratio.values) if ratio else None for name, ratio in ratios.items()}
    return {
        "point": point.name,
        "separate": separate(point.training),
        **{name: ratio.middle if ratio else None for name, ratio in ratios.items()},
        **{f"{name}_low": interval.low if interval else None for name, interval in intervals.items()},
        **{f"{name}_high": interval.high if interval else None for name, interval in intervals.items()},
        "arms": {
            arm: {
                name: [round(getattr(outcome, name), 4) for outcome in outcomes]
                for name in ("throughput", "attainment", "utilisation")
            }
            for arm, outcomes in runs.items()
        },
    }


def _best(ratios: Mapping[Point, Ratio | None]) -> Point | None:
    counted = [(ratio.middle, point.name, point) for point, ratio in ratios.items() if ratio]
    return max(counted, key=lambda row: row[:2])[2] if counted else None


def _headline(name: str, best: Ratio | None, grid_ratios: Sequence[Ratio | None]) -> Rows:
    counted = [ratio.middle for ratio in grid_ratios if ratio]
    lacking = Missing("the separate cluster keeps too little of the SLO")
    if best is None:
        return {name: (lacking, "ratio")}
    return {
        **_with_interval(name, best.values, "ratio"),
        f"{name}_grid_median": (median(counted), "ratio"),
        f"{name}_grid_least": (min(counted), "ratio"),
        f"{name}_grid_points": (float(len(counted)), "points"),
    }


def _fixed_rows(runs: Mapping[Point, Runs]) -> Rows:
    """Against a partition that stays as it is, whatever the training rate: the best of it, and the worst, at each."""
    found: Rows = {}
    for arm in (name for name in BASELINES if name.startswith("separate")):
        ratios = [
            median(ours.throughput / theirs.throughput for ours, theirs in zip(rows["lemix"], rows[arm], strict=True))
            for rows in runs.values()
        ]
        found[f"throughput_vs_{arm}_best_point"] = (max(ratios), "ratio")
    return found


def planning(seeds: Sequence[int]) -> Figures:
    """By itself, one run after another, since it is a time."""
    outcomes = [Simulation(drawn(PLAN_POINT, seed), "lemix").run() for seed in seeds]
    return {
        "plan_ms_mean": (mean(outcome.planning_ms for outcome in outcomes), "ms"),
        "policy_ms_mean": (mean(outcome.policy_ms for outcome in outcomes), "ms"),
    }


def run(seeds: int, seed: int, *, quick: bool) -> dict[str, Any]:
    """The whole benchmark."""
    points, first = grid(quick=quick), range(seed, seed + seeds)
    again = range(seed + seeds, seed + 2 * seeds)
    with ProcessPoolExecutor() as workers:
        runs = dict(zip(points, workers.map(partial(measured, seeds=first), points), strict=True))
        throughputs = {point: throughput_ratio(point, runs[point]) for point in points}
        slos = {point: slo_ratio(point, runs[point]) for point in points}
        best = {"throughput": _best(throughputs), "slo": _best(slos)}
        chosen = [point for point in best.values() if point]
        anew = dict(zip(chosen, workers.map(partial(measured, seeds=again), chosen), strict=True))
    at_best = {name: anew[point] if point else None for name, point in best.items()}
    throughput_point, slo_point = best["throughput"], best["slo"]
    best_throughput = throughput_ratio(throughput_point, anew[throughput_point]) if throughput_point else None
    best_slo = slo_ratio(slo_point, anew[slo_point], 0.0) if slo_point else None
    figures = {
        **_headline("throughput_vs_separate", best_throughput, list(throughputs.values())),
        **_headline("slo_vs_separate", best_slo, list(slos.values())),
        **_fixed_rows(runs),
        **planning(first),
        **_arm_rows(runs, "lemix"),
    }
    baselines = {arm: _arm_rows(runs, arm) | _ablation_rows(runs, arm) for arm in BASELINES}
    baselines |= {arm: _ablation_rows(runs, arm) for arm in ABLATIONS}
    obj = report("lemix", seed, figures, baselines, ("rowen", "numpy"), BARS)
    obj["best_points"] = {
        name: {"seeds": list(again), **grid_row(point, found)}
        for name, point in best.items()
        if point and (found := at_best[name]) is not None
    }
    obj["grid"] = [grid_row(point, runs[point]) for point in points]
    return obj


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with the whole grid")
    parser.add_argument("--quick", action="store_true", help="6 points")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print_report(run(6, arguments.seed, quick=arguments.quick), arguments.json)


if __name__ == "__main__":
    main()
