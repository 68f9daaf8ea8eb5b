"""Fine-tuning beside a service, over the targets of the service's latencies (LLMStation, Fig. 9).

The server, jobs and arms of `coserve.py`, under requests of one rate. First the target of the time per token is varied
and the other is wide, then the target of the time to the first token. What counts is the tokens a second that are
learned while the service keeps both targets at the 95th percentile, and nothing where it does not:

    rowen              the job rides in the server's engine, which is started anew for each target
    preempt            the job stands behind the gate
    chunked            chunks of 16 tokens, after as many steps as keep the target of the time per token
    temporal           an iteration after each 64 or 128 steps, or dynamically: the best that keeps the target
    spatial            both at once, the job with 25, 50 or 75 % of the device at most: the best that keeps the target

`over_best_other_` is Rowen's figure over the best other arm's. `repeats` has the raw values. `--quick` takes some 9
minutes, all of it some 33.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from coserve import PERCENTILE, keep_off_the_device, node_of, restart_rowen, terms_of
from coserving.arms import Arm, arms_of, steps_between_chunks
from coserving.measuring import Alone, iteration_seconds, measure
from coserving.node import TUNERS, CoservingNode
from coserving.result import Bounds, Run
from coserving.sweep import Target, over_best, sweep_figures
from coserving.sweep_picture import draw
from reporting.command import run_command
from reporting.report import report

SETTINGS = {
    "preempt": ("preempt",),
    "temporal": ("temporal_64", "temporal_128", "temporal_dynamic"),
    "spatial": ("spatial_25", "spatial_50", "spatial_75"),
}
"""Arm → what of `arms_of` it can be set to; these know no targets, and run once."""
WIDE = {"ttft": 20.0, "tpot": 6.0}
"""Factor of the target that is not varied."""


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    factors: Mapping[str, Sequence[float]]
    """Metric → its targets over what the server takes alone."""
    load: float
    seconds: float


QUICK = Plan({"tpot": (2.0, 5.0), "ttft": (5.0,)}, load=1.0, seconds=10.0)
FULL = Plan({"tpot": (1.5, 2.0, 3.0, 4.5, 6.0), "ttft": (2.0, 4.0, 8.0, 20.0)}, load=1.0, seconds=30.0)


def targets_of(plan: Plan, speed: Alone) -> list[Target]:
    """One bound varied at a time."""
    own = {"ttft": speed.ttft, "tpot": speed.tpot}
    found = []
    for metric, factors in plan.factors.items():
        for factor in factors:
            bounds = {name: own[name] * (factor if name == metric else WIDE[name]) for name in own}
            found.append(Target(metric, factor, Bounds(**bounds)))
    return found


def measure_all(plan: Plan, seed: int) -> tuple[Alone, dict[str, dict[Target, list[Run]]]]:
    """All arms at all targets."""
    with node_of(tuple(TUNERS)) as (node, speed):
        targets = targets_of(plan, speed)
        traffic = speed.traffic(plan.load, plan.seconds, 0, seed)
        chunk = iteration_seconds(node, "chunked", 5)
        arms = arms_of(1) | {f"spatial_{part}": Arm("free", tuner_part=part / 100) for part in (25, 50, 75)}

        def once(name: str, arm: Arm) -> Run:
            return measure(node, name, arm, traffic)

        settings = {arm: [once(name, arms[name]) for name in names] for arm, names in SETTINGS.items()}
        runs = {arm: dict.fromkeys(targets, own) for arm, own in settings.items()}
        runs["chunked"] = {target: [once("chunked", _chunked(chunk, speed, target))] for target in targets}
        runs["rowen"] = {target: [_rowen(node, target, once, arms["rowen"])] for target in targets}
    return speed, runs


def _chunked(chunk_seconds: float, speed: Alone, target: Target) -> Arm:
    return arms_of(steps_between_chunks(chunk_seconds, speed.tpot, target.bounds.tpot))["chunked"]


def _rowen(node: CoservingNode, target: Target, once: Any, arm: Arm) -> Run:
    restart_rowen(node, terms_of(target.bounds))
    # What rides learns how long the engine's steps take, so it is not measured cold.
    once("rowen", arm)
    run: Run = once("rowen", arm)
    return run


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    keep_off_the_device()
    started = time.monotonic()
    speed, runs = measure_all(plan, seed)
    figures = {
        **sweep_figures(runs, "rowen", PERCENTILE),
        **over_best(runs, PERCENTILE),
        "ttft_alone": (speed.ttft * 1000, "ms"),
        "tpot_alone": (speed.tpot * 1000, "ms"),
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    others = {arm: sweep_figures(runs, arm, PERCENTILE) for arm in runs if arm != "rowen"}
    obj = report("slo_sweep", seed, figures, others, ("vllm", "torch", "transformers", "peft", "trl"))
    rows = [
        {"target": target.name, **asdict(target.bounds), "run": each.row(target.bounds)}
        for by in runs.values()
        for target, own in by.items()
        for each in own
    ]
    return obj | {"repeats": rows}


def main() -> None:
    """Command line."""
    run_command(
        __doc__, "three targets, in some 9 minutes", lambda quick, seed: run(QUICK if quick else FULL, seed), draw
    )


if __name__ == "__main__":
    main()
