"""Batch rows beside a service on one device: how many are answered, and what the service's requests wait.

Two real vLLM servers and a batch worker on one core. Arms take turns under the same requests, which come at random
(Poisson):

    alone         the plain server, without rows
    priority_K    K rows are under way in the plain server, below its requests in vLLM's priority scheduling
    gateway_K     the same without priorities, and rows are sent while the engine is not saturated (as llm-d's gateway
                  judges it): with as many rows as Rowen has, since fewer never saturate it
    preempt       a batch worker with an engine of its own stands behind the gate of the server with Rowen's plugin
    rowen_K       rows ride in the server with Rowen's plugin (CoServe)

Rows read 64 to 384 tokens and write 32; requests read 16 to 96 and write 32. The bounds of the service come from the
plain server's speed alone: 5 times its TTFT, twice its TPOT, for 95 % of the requests. A *load* is how many requests
would be in flight on average were none to wait for another.

`offline_vs_priority_at_slo` is the least over the loads of Rowen's tokens of rows a second over those of vLLM's
priority scheduling, at the number of rows at which most get done while the bounds are kept (`row_riding/result.py`):
who has to know it beforehand has it at most. A load at which
the other does not keep them gives no ratio; where it keeps them and Rowen does not, the figure has no value.
`ttft_p99_increase` and `tpot_p99_increase` are the greatest over the loads, against the plain server alone.

`repeats` has the raw values. `--quick` takes some 5 minutes, all of it some 33. `--picture` draws it.
"""

import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coserving.load import WARM_UP
from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import report
from rig.two_servers import CORE
from row_riding.arms import arms_of
from row_riding.measuring import Alone, alone, measure
from row_riding.node import RowNode
from row_riding.picture import draw
from row_riding.result import ATTAINMENT, Run, arm_figures, main_figures, points

from rowen.crds.ride.terms import LatencyBound, RideTerms

BARS: Bars = {
    "offline_vs_priority_at_slo": (1.5, "at least"),
    "ttft_p99_increase": (0.05, "at most"),
    "slo_attainment": (ATTAINMENT, "at least"),
}
RIDING = 24
"""Rows that Rowen's batch worker has under way here: more than the engine runs at once."""
_READY_SECONDS = 600.0


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    loads: tuple[float, ...]
    levels: tuple[int, ...]
    """Rows under way below vLLM's priorities."""
    blocks: int
    seconds: float
    """Of each arm under each load."""


QUICK = Plan((0.5, 2.0), (1, 4), blocks=1, seconds=12.0)
FULL = Plan((0.25, 1.0, 2.0, 3.0), (1, 2, 4, 8), blocks=2, seconds=20.0)


@contextlib.contextmanager
def node_of() -> Iterator[tuple[RowNode, Alone]]:
    """Servers and worker, ready; Rowen's server goes by bounds from the speed of the plain one."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowen-coserve-batch-")))
        pages = Path("/dev/shm") / f"rowen-benchmark-{os.getpid()}"
        stack.callback(shutil.rmtree, pages, ignore_errors=True)
        node = RowNode(folder, pages)
        stack.callback(node.close)
        node.start_server("plain")
        node.start_worker()
        node.wait_ready(_READY_SECONDS)
        speed = alone(node.url("plain"), 16)
        bounds = speed.bounds
        terms = RideTerms(
            ttft=LatencyBound(percentile=ATTAINMENT * 100, seconds=bounds.ttft),
            tpot=LatencyBound(percentile=ATTAINMENT * 100, seconds=bounds.tpot),
            memory_bytes=2**30,
        )
        node.start_server("rowen", terms)
        node.wait_ready(_READY_SECONDS)
        alone(node.url("rowen"), 16)
        yield node, speed


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise RuntimeError("one core is too few: the device needs one of its own")
    os.sched_setaffinity(0, others)
    started, order = time.monotonic(), random.Random(seed)
    arms = arms_of(plan.levels, RIDING)
    riding = arms[-1]
    runs: list[Run] = []
    with node_of() as (node, speed):
        # What decides how many rows ride learns how long steps take, so it is not measured cold.
        measure(node, riding, speed.traffic(1.0, plan.seconds, WARM_UP, seed))
        for block in range(plan.blocks):
            for load in plan.loads:
                for arm in order.sample(arms, len(arms)):
                    runs.append(measure(node, arm, speed.traffic(load, plan.seconds, block, seed)))
                    print(f"block {block}, load {load:g}, {arm.name}: {runs[-1].tokens:.0f} tokens", file=sys.stderr)
    bounds = speed.bounds
    table = points(runs, bounds)
    figures = {
        **main_figures(runs, bounds, riding.name),
        "ttft_bound": (bounds.ttft * 1000, "ms"),
        "tpot_bound": (bounds.tpot * 1000, "ms"),
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    baselines = {arm.name: arm_figures(table, arm.name) for arm in arms if arm is not riding}
    obj = report("coserve_batch", seed, figures, baselines, ("vllm", "torch", "transformers"), BARS)
    return obj | {"bounds": asdict(bounds), "repeats": [one.row(bounds) for one in runs]}


def main() -> None:
    """Command line."""
    run_command(
        __doc__,
        "two loads, each arm once, in some 5 minutes",
        lambda quick, seed: run(QUICK if quick else FULL, seed),
        draw,
    )


if __name__ == "__main__":
    main()
