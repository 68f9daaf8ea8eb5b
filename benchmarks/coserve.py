"""Fine-tuning beside a service on one device: what it learns, and how many requests keep their bounds.

A real vLLM server with Rowen's plugin, in which a job rides, and behind whose gate another one stands; and a plain one.
Arms take turns under the same requests, which come at random (Poisson):

    alone              the plain server, without fine-tuning
    rowen              the job rides in the server's engine (CoServe)
    preempt            the job stands behind the gate (Preempt)
    separate_25        the machine divided: the server has a quarter of it, the job the rest; separate_50, separate_75
    temporal_64        after each 64 steps of the server an iteration of fine-tuning; temporal_128; temporal_dynamic as
                       FlexLLM, Appendix A
    spatial_50         both at once, the job with half of the device at most
    chunked            fine-tuning in chunks of 16 tokens between steps, each only where every request in flight still
                       keeps nine tenths of the bound of the time per token (`coserving/chunks.py`)

A device is a core. A part of it is a quota of the kernel's over 8 ms, so a core that is slower. An iteration is one
sequence of 256 tokens, forward and backward, and the optimizer's step. Where no request is in flight, all but
`separate_` and `spatial_` have the whole device for fine-tuning. The process of the job that rides has no model; it and
the client are on the other cores. All engines run eager.

A *load* is how many requests would be in flight on average were none to wait for another; rates are chosen for it by
the speed of the server alone, which the bounds go by, too: 10 times its TTFT, 3 times its TPOT.

`finetune_vs_separate` is the least over the loads of Rowen's fine-tuning over that of the best division at equal
attainment (`coserving/result.py`), `slo_attainment` the least over the loads of the part of requests within both
bounds, `peak_fraction` fine-tuning at the highest load over that without requests. `roofline_` is what the core's
arithmetic allows at most beside the requests, `left_` what a job alone would learn in the time that the engine's own
steps leave (`coserving/roofline.py`), `of_roofline_` and `of_left_` how much of them Rowen's arm was.

`repeats` has the raw values. `--quick` takes some 8 minutes, all of it some 40. `--picture` draws it.
"""

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coserving.arms import FIXED, arms_of
from coserving.load import WARM_UP, Size, Traffic
from coserving.measuring import SIZE, Alone, alone, iteration_seconds, measure, warm_up
from coserving.node import ALONE_TUNERS, TUNERS, CoservingNode
from coserving.picture import draw
from coserving.result import Bounds, Run, arm_figures, main_figures, points
from coserving.roofline import left_figures, peak_operations, roofline_figures
from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import report
from rig.two_servers import CORE

from rowen.crds.ride.terms import LatencyBound, RideTerms, SpatialTerms

BARS: Bars = {
    "finetune_vs_separate": (1.9, "at least"),
    "slo_attainment": (0.90, "at least"),
    "peak_fraction": (0.76, "at least"),
}
PERCENTILE = 95.0
"""Of both bounds, as the service states them."""
RIDE_MEMORY_BYTES = 2 * 2**30
_READY_SECONDS = 600.0


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    loads: tuple[float, ...]
    blocks: int
    seconds: float
    """Of each arm under each load."""


QUICK = Plan((0.5, 2.5), blocks=1, seconds=12.0)
FULL = Plan((0.25, 1.0, 2.0, 3.0), blocks=2, seconds=20.0)


@dataclass(frozen=True)
class Measured:
    """All that a run has seen."""

    alone: Alone
    no_load_speed: float
    solo_speed: float
    """Of a job that has the device to itself; tokens a second."""
    peak: float
    """Operations a second of a core."""
    runs: list[Run]


@contextlib.contextmanager
def node_of(
    tuners: tuple[str, ...], *, spatial: bool = False, size: Size = SIZE
) -> Iterator[tuple[CoservingNode, Alone]]:
    """Servers and jobs, ready; Rowen's server goes by bounds from the speed of the plain one, with such requests.

    `spatial`: it leaves a share of the device to a job of another model, in the place of riders.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowen-coserve-")))
        pages = Path("/dev/shm") / f"rowen-benchmark-{os.getpid()}"
        stack.callback(shutil.rmtree, pages, ignore_errors=True)
        node = CoservingNode(folder, pages, shares=spatial)
        stack.callback(node.close)
        for tuner in set(tuners) & set(ALONE_TUNERS):
            node.start_tuner(tuner)
        node.start_server("plain")
        node.wait_ready(_READY_SECONDS)
        speed = alone(node.url("plain"), 16, size)
        node.start_server("rowen", spatial_terms_of(speed.bounds) if spatial else terms_of(speed.bounds))
        for tuner in set(tuners) - set(ALONE_TUNERS):
            node.start_tuner(tuner)
        node.wait_ready(_READY_SECONDS)
        warm_up(node.url("rowen"), 16, size)
        yield node, speed


def restart_rowen(node: CoservingNode, terms: RideTerms, first: Traffic) -> None:
    """Starts Rowen's server anew, on other terms, and the job that rides in it; at first it is under that traffic.

    What rides learns how long the engine's steps take, so it is not measured cold.
    """
    for name in ("rider", "rowen"):
        node.processes.end(name)
    node.start_server("rowen", terms)
    node.start_tuner("rider")
    node.wait_ready(_READY_SECONDS)
    warm_up(node.url("rowen"), 8)
    measure(node, "rowen", FIXED["rowen"], first)


def terms_of(bounds: Bounds) -> RideTerms:
    """On which riders are taken in."""
    return RideTerms(**_latencies(bounds), memory_bytes=RIDE_MEMORY_BYTES)


def spatial_terms_of(bounds: Bounds) -> SpatialTerms:
    """On which a share is left beside requests."""
    return SpatialTerms(**_latencies(bounds))


def _latencies(bounds: Bounds) -> dict[str, Any]:
    return {name: LatencyBound(percentile=PERCENTILE, seconds=seconds) for name, seconds in asdict(bounds).items()}


def measure_all(plan: Plan, seed: int) -> Measured:
    """Starts everything, and gives all arms their turns under each load."""
    order = random.Random(seed)
    with node_of(tuple(TUNERS)) as (node, speed):
        solo = TUNERS["free"] / iteration_seconds(node, "free", 3)
        arms = arms_of(speed.bounds)
        # What rides learns how long the engine's steps take, so it is not measured cold.
        measure(node, "rowen", arms["rowen"], speed.traffic(1.0, plan.seconds, WARM_UP, seed))
        quiet = measure(node, "rowen", arms["rowen"], speed.traffic(0.0, plan.seconds, 0, seed))
        runs = [
            measure(node, name, arms[name], speed.traffic(load, plan.seconds, block, seed))
            for block in range(plan.blocks)
            for load in plan.loads
            for name in order.sample(list(arms), len(arms))
        ]
    return Measured(speed, quiet.tokens / quiet.seconds, solo, peak_operations(), runs)


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    keep_off_the_device()
    started = time.monotonic()
    found = measure_all(plan, seed)
    bounds = found.alone.bounds
    table = points(found.runs, bounds)
    figures = {
        **main_figures(found.runs, bounds, found.no_load_speed),
        "solo_tokens_per_second": (found.solo_speed, "tokens/s"),
        **roofline_figures(found.runs, found.peak),
        **left_figures(found.runs, found.solo_speed),
        "ttft_bound": (bounds.ttft * 1000, "ms"),
        "tpot_bound": (bounds.tpot * 1000, "ms"),
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    others = {arm: arm_figures(table, arm) for arm in arms_of(bounds) if arm != "rowen"}
    obj = report("coserve", seed, figures, others, ("vllm", "torch", "transformers", "peft", "trl"), BARS)
    return obj | {"bounds": asdict(bounds), "repeats": [one.row(bounds) for one in found.runs]}


def keep_off_the_device() -> None:
    """This process, and what it starts unless it says otherwise. Raises `RuntimeError` on a machine of one core."""
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise RuntimeError("one core is too few: the device needs one of its own")
    os.sched_setaffinity(0, others)


def main() -> None:
    """Command line."""
    run_command(
        __doc__,
        "two loads, each arm once, in some 8 minutes",
        lambda quick, seed: run(QUICK if quick else FULL, seed),
        draw,
    )


if __name__ == "__main__":
    main()
