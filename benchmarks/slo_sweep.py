"""Fine-tuning beside a service, over the targets of the service's latencies (LLMStation, Fig. 9).

The server, jobs and arms of `coserve.py`, under requests of one rate. First the target of the time per token is varied
and the other is wide, then the target of the time to the first token. What counts is the tokens a second that are
learned while the service keeps both targets at the 95th percentile, and nothing where it does not:

    rowen              the job rides in the server's engine, which is started anew for each target
    preempt            the job stands behind the gate
    chunked            chunks of 16 tokens, each only where every request in flight keeps its targets
    temporal           an iteration after each 64 or 128 steps, or dynamically: the best that keeps the target
    spatial            both at once, the job with 25, 50 or 75 % of the device at most: the best that keeps the target

Beside them `alone`, the plain server without fine-tuning: its `attainment_` is the part of the requests within both
targets. A block has its runs in an order that is drawn: rowen and chunked at each target, each setting of the others,
which know no target, once. Requests of both blocks count together.

`over_best_other_` is Rowen's figure over the best other arm's, `least_over_best_other` the least of these. `repeats`
has the raw values. `--quick` takes some 9 minutes, all of it some 40.
"""

import os
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from coserve import PERCENTILE, keep_off_the_device, node_of, restart_rowen, terms_of
from coserving.arms import FIXED, Arm, chunked
from coserving.load import WARM_UP, Traffic
from coserving.measuring import Alone, measure
from coserving.node import TUNERS, CoservingNode
from coserving.result import Bounds, Run
from coserving.sweep import Target, attainments, over_best, sweep_figures
from coserving.sweep_picture import draw
from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import report

BARS: Bars = {"least_over_best_other": (1.0, "at least")}
ARMS = FIXED | {f"spatial_{part}": Arm("free", tuner_part=part / 100) for part in (25, 50, 75)}
SETTINGS = {
    "alone": ("alone",),
    "preempt": ("preempt",),
    "temporal": ("temporal_64", "temporal_128", "temporal_dynamic"),
    "spatial": ("spatial_25", "spatial_50", "spatial_75"),
}
"""Arm → what of `ARMS` it can be set to; these know no target."""
AIMING = ("chunked", "rowen")
"""Arms that are run at each target."""
WIDE = {"ttft": 20.0, "tpot": 6.0}
"""Factor of the target that is not varied."""


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    factors: Mapping[str, Sequence[float]]
    """Metric → its targets over what the server takes alone."""
    load: float
    blocks: int
    seconds: float
    """Of each run."""


QUICK = Plan({"tpot": (2.0, 5.0), "ttft": (5.0,)}, load=1.0, blocks=1, seconds=10.0)
FULL = Plan({"tpot": (1.5, 2.0, 3.0, 4.5, 6.0), "ttft": (2.0, 4.0, 8.0, 20.0)}, load=1.0, blocks=2, seconds=15.0)


def targets_of(plan: Plan, speed: Alone) -> list[Target]:
    """One bound varied at a time."""
    own = {"ttft": speed.ttft, "tpot": speed.tpot}
    found = []
    for metric, factors in plan.factors.items():
        for factor in factors:
            bounds = {name: own[name] * (factor if name == metric else WIDE[name]) for name in own}
            found.append(Target(metric, factor, Bounds(**bounds)))
    return found


def turns_of(targets: Sequence[Target], source: random.Random) -> list[tuple[str, Target | None]]:
    """The runs of a block in an order that is drawn: what knows no target once, the others at each."""
    every: list[tuple[str, Target | None]] = [(name, None) for names in SETTINGS.values() for name in names]
    every += [(name, target) for target in targets for name in AIMING]
    return source.sample(every, len(every))


def measure_all(plan: Plan, seed: int) -> tuple[Alone, dict[str, dict[Target, list[Run]]]]:
    """All arms at all targets, block by block."""
    source = random.Random(seed)
    found: defaultdict[tuple[str, Target | None], list[Run]] = defaultdict(list)
    with node_of(tuple(TUNERS)) as (node, speed):
        targets = targets_of(plan, speed)
        for block in range(plan.blocks):
            traffic = speed.traffic(plan.load, plan.seconds, block, seed)
            for name, target in turns_of(targets, source):
                found[name, target].append(_once(node, name, target, traffic))
    runs = {
        arm: {target: [run for name in names for run in found[name, None]] for target in targets}
        for arm, names in SETTINGS.items()
    }
    return speed, runs | {arm: {target: found[arm, target] for target in targets} for arm in AIMING}


def _once(node: CoservingNode, name: str, target: Target | None, traffic: Traffic) -> Run:
    if target is None:
        return measure(node, name, ARMS[name], traffic)
    if name == "chunked":
        return measure(node, name, chunked(target.bounds), traffic)
    restart_rowen(node, terms_of(target.bounds), replace(traffic, block=WARM_UP))
    return measure(node, name, ARMS[name], traffic)


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
    others = {
        "alone": attainments(runs["alone"]),
        **{arm: sweep_figures(runs, arm, PERCENTILE) for arm in runs if arm not in ("alone", "rowen")},
    }
    obj = report("slo_sweep", seed, figures, others, ("vllm", "torch", "transformers", "peft", "trl"), BARS)
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
