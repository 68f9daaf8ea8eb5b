"""Fine-tuning of another model beside a service, on a share of one device while requests are in flight.

A real vLLM server with Rowen's plugin, and a plain one; jobs of a model of their own. Arms take turns under the same
requests, which come at random (Poisson):

    alone           the plain server, without fine-tuning
    rowen           the job behind the gate has what the engine says that it can do without (Spatial)
    preempt         the same job and server, without shares: it stands still while requests are in flight (Preempt)
    separate_25     the machine divided: the server has a quarter of it, the job the rest; separate_50, separate_75
    static_25       both at once, the job with a quarter of the device at most; static_50, static_75

A device is a core, a part of it a quota of the kernel's; no engine is limited but in `separate_`. An iteration is one
sequence of 256 tokens. The bounds are 10 times the TTFT and 3 times the TPOT of the server alone. A *load* is how many
requests would be in flight on average were none to wait for another.

`vs_separate` and `vs_static` are means over the loads of Rowen's fine-tuning over that of the best division, and the
best static share, at equal attainment (`coserving/result.py`). `slo_attainment` is the least over the loads.

`slowdown_error_mean` says how far off the time of a step beside offline work is predicted, before it is learned
(`coserving/slowdowns.py`), `slowdown_N_tenths_error_mean` the same by share.

`repeats` has the raw values, `slowdowns` each such step, `shares` what the gate was open for over time. `--quick` takes
some 6 minutes, all of it some 33. `--picture` draws it.
"""

import contextlib
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from coserve import Plan, keep_off_the_device, node_of
from coserving.arms import Arm
from coserving.load import WARM_UP
from coserving.measuring import Alone, measure
from coserving.result import Point, Run, arm_figures, points, versus
from coserving.share_picture import draw
from coserving.shares import Sample, sampled, shared_fraction
from coserving.slowdowns import Beside, slowdown_figures
from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import Figures, Missing, report

BARS: Bars = {
    "vs_separate": (1.46, "at least"),
    "vs_static": (1.75, "at least"),
    "slo_attainment": (0.90, "at least"),
}
STATIC = "static_"
ARMS = {
    "alone": Arm(),
    "rowen": Arm("gated", riding=True, shares=True),
    "preempt": Arm("gated", riding=True, shares=False),
    **{
        f"separate_{percent}": Arm("free", server_part=percent / 100, tuner_part=1 - percent / 100)
        for percent in (25, 50, 75)
    },
    **{f"{STATIC}{percent}": Arm("free", tuner_part=percent / 100) for percent in (25, 50, 75)},
}
TUNERS = ("free", "gated")
QUICK = Plan((0.5, 2.0), blocks=1, seconds=12.0)
FULL = Plan((0.25, 1.0, 2.0, 3.0), blocks=2, seconds=20.0)


@dataclass(frozen=True)
class Measured:
    """All that a run has seen."""

    alone: Alone
    runs: Sequence[Run]
    shares: Mapping[float, Sequence[Sample]]
    """Of Rowen's arm, by load."""
    slowdowns: Sequence[Beside]


def measure_all(plan: Plan, seed: int) -> Measured:
    """Starts everything, and gives all arms their turns under each load."""
    order = random.Random(seed)
    runs: list[Run] = []
    shares: dict[float, list[Sample]] = {load: [] for load in plan.loads}
    with node_of(TUNERS, spatial=True) as (node, speed):

        def once(name: str, load: float, block: int) -> Run:
            return measure(node, name, ARMS[name], speed.traffic(load, plan.seconds, block, seed))

        # How large a share may be is learned, so it is not measured cold.
        for load in (plan.loads[-1], plan.loads[0]):
            once("rowen", load, WARM_UP)
        warm = time.monotonic()
        for block in range(plan.blocks):
            for load in plan.loads:
                for name in order.sample(list(ARMS), len(ARMS)):
                    with sampled(node.device) if name == "rowen" else contextlib.nullcontext([]) as samples:
                        runs.append(once(name, load, block))
                    shares[load] += samples
        slowdowns = node.slowdowns(warm)
    return Measured(speed, runs, shares, slowdowns)


def mean_ratio(table: Mapping[tuple[str, float], Point], prefix: str) -> float | Missing:
    """Over the loads; missing where it is at one of them."""
    ratios = [versus(table, load, prefix) for load in sorted({load for _, load in table})]
    known = [ratio for ratio in ratios if not isinstance(ratio, Missing)]
    return mean(known) if len(known) == len(ratios) else Missing(f"{prefix}* learned nothing")


def figures_of(found: Measured) -> Figures:
    """Rowen's, over all loads."""
    table = points(found.runs, found.alone.bounds)
    loads = sorted({run.load for run in found.runs})
    ratios = {
        f"vs_{name}_load_{load:g}": (versus(table, load, prefix), "ratio")
        for name, prefix in (("separate", "separate_"), ("static", STATIC), ("preempt", "preempt"))
        for load in loads
    }
    return {
        "vs_separate": (mean_ratio(table, "separate_"), "ratio"),
        "vs_static": (mean_ratio(table, STATIC), "ratio"),
        "slo_attainment": (min(table["rowen", load].attainment for load in loads), "fraction"),
        "slo_attainment_alone": (min(table["alone", load].attainment for load in loads), "fraction"),
        **ratios,
        **{f"shared_part_load_{load:g}": (shared_fraction(found.shares[load]), "fraction") for load in loads},
        **slowdown_figures(found.slowdowns),
        **arm_figures(table, "rowen"),
    }


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    keep_off_the_device()
    started = time.monotonic()
    found = measure_all(plan, seed)
    bounds = found.alone.bounds
    figures = {
        **figures_of(found),
        "ttft_bound": (bounds.ttft * 1000, "ms"),
        "tpot_bound": (bounds.tpot * 1000, "ms"),
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    table = points(found.runs, bounds)
    others = {arm: arm_figures(table, arm) for arm in ARMS if arm != "rowen"}
    obj = report("spatial", seed, figures, others, ("vllm", "torch", "transformers", "peft", "trl"), BARS)
    shares = {f"{load:g}": [asdict(sample) for sample in samples] for load, samples in found.shares.items()}
    raw = {"repeats": [one.row(bounds) for one in found.runs], "shares": shares}
    return obj | {"bounds": asdict(bounds), "slowdowns": [asdict(step) for step in found.slowdowns]} | raw


def main() -> None:
    """Command line."""
    run_command(
        __doc__,
        "two loads, each arm once, in some 6 minutes",
        lambda quick, seed: run(QUICK if quick else FULL, seed),
        draw,
    )


if __name__ == "__main__":
    main()
