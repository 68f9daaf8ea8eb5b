"""What harvesting brings to a fleet over a week, by how jobs are scheduled: a simulation (docs/simulator.md).

The services of a fleet answer requests of the Azure LLM inference trace 2023 (*conv* and *code* in turn, excerpts that
are repeated), each from another moment of it on, and offline jobs arrive: batch jobs, tuners, and jobs in lockstep on
two devices. Each node has four devices and two engines, so a job in lockstep may get devices that are busy together or
apart. Engines have large caches, so that memory is short at times. The same services and jobs for every arm:

    figures       Rowen
    first-fit     the first devices by name that are empty, else the first with a free slot; nobody is withdrawn
    idle-only     Rowen that sees nothing of how much memory the pools lend
    no-alignment  Rowen that takes a set of devices for as idle as its least idle one
    no-monitor    Rowen that withdraws nobody

`utilisation_gain_points` and `devices_saved` are counted as in Valve's evaluation (section 7): device time in which
offline work computes; and the jobs' throughput over their throughput alone, in devices. `harvestable_points` is what
the traces leave: more cannot be gained. `sla_attainment` is over all jobs with an SLA: who was never placed did
not get it, and is in `sla_refused`; `sla_attainment_placed` leaves these out. Figures are medians over the seeds, with
the least and the most. More device time is not more work: first fit gains more points and keeps fewer SLAs. So
Rowen is held against the other arms, too, seed by seed: `sla_attainment_over_best` is its attainment less the best
other arm's, `devices_saved_over_first_fit` its devices saved less first fit's.
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from reporting.bars import Bars
from reporting.report import Figures, Missing, print_report, report
from traffic.traffic import TRACES

from rowen.demo.traffic.excerpt import load
from rowen.scheduler.policy import Policy
from rowen.simulator.jobs import DEFAULT_CLASSES, JobClass, arriving
from rowen.simulator.loop import simulate
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.service import RequestFeed
from rowen.simulator.requests import Requests
from rowen.simulator.result import result
from rowen.simulator.shape import Shape
from rowen.simulator.sources.replay import Replay
from rowen.simulator.variants import Name, variant

GIB = 1 << 30
LOCKSTEP = JobClass(
    name="lockstep", devices=2, mean_hours=4.0, want_bytes=8 * GIB, curve=((0, 0.4), (8 * GIB, 1.0)), loss=0.0,
    slas=(None, 0.2),
)  # fmt: skip
ENGINE = Engine(memory_bytes=50 * GIB, pool_bytes=24 * GIB, kv_bytes_per_token=2 << 20)
"""With some 42 GiB of weights and a cache without grouped heads, over two devices."""
LOADS = {"conv": 0.03, "code": 0.3}
"""Of the traces' rates, which whole clusters had: so that an engine is busy for some half of the time."""
DEMAND = 0.4
"""Device time alone that jobs need, over all device time: two thirds of what the traces leave. Over a week queues only
grow with more, since memory that is short takes some of the throughput."""
FULL = Shape(
    nodes=25, devices_per_node=4, services_per_node=2, seconds=7 * 86_400.0,
    step_seconds=15.0, window_seconds=60.0, pass_seconds=300.0,
)  # fmt: skip
"""With four steps to a window, so that a report tells of more than one moment of the pool."""
QUICK = FULL.model_copy(update={"nodes": 8, "seconds": 6 * 3600.0, "pass_seconds": 60.0})
UNITS = {
    "utilisation_gain_points": "points",
    "utilisation_without_points": "points",
    "harvestable_points": "points",
    "harvest_efficiency": "fraction",
    "devices_saved": "devices",
    "sla_attainment": "fraction",
    "sla_attainment_placed": "fraction",
    "sla_refused": "jobs",
    "evictions": "1",
}
COMPARED = {"sla_attainment_over_best": "fraction", "devices_saved_over_first_fit": "devices"}
BARS: Bars = {
    "utilisation_gain_points": (34.6, "at least"),
    "sla_attainment": (0.99, "at least"),
    "sla_attainment_over_best": (0.0, "at least"),
    "devices_saved_over_first_fit": (0.0, "at least"),
}
"""Valve's gain (section 7); what a promise is worth; and that no simpler way to schedule does better."""
Found = dict[str, float | None]
"""Figures of one arm under one seed."""
Arm = tuple[Name, int]


class InTurn:
    """One service after the other gets one of the traces."""

    def __init__(self, seed: int) -> None:
        self._replays = [Replay(_requests(name), rate, seed) for name, rate in LOADS.items()]

    def between(self, service: int, start: float, end: float) -> Requests:
        """See `Source`."""
        return self._replays[service % len(self._replays)].between(service, start, end)


def _requests(name: str) -> Requests:
    rows = load(TRACES[name])
    columns = (
        [row.arrival for row in rows],
        [row.context_tokens for row in rows],
        [row.generated_tokens for row in rows],
    )
    return Requests(*(np.array(column, dtype=np.float64) for column in columns))


def main() -> None:
    """Runs all arms under all seeds, and prints the object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 nodes for six hours, one seed")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=3, help="how many; 1 with --quick")
    parser.add_argument("--demand", type=float, default=DEMAND, help="device time alone that jobs need, over all of it")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    shape = QUICK if options.quick else FULL
    seeds = range(options.seed, options.seed + (1 if options.quick else options.seeds))
    arms = [(name, seed) for name in Name for seed in seeds]
    with ProcessPoolExecutor(options.processes) as pool:
        found = dict(zip(arms, pool.map(partial(run, shape=shape, demand=options.demand), arms), strict=True))
    repeats = {name: [found[name, seed] for seed in seeds] for name in Name}
    told = told_of(repeats, options.seed)
    told |= {"shape": shape.model_dump(mode="json"), "demand": options.demand}
    print_report(told, options.json)


def told_of(repeats: Mapping[Name, Sequence[Found]], seed: int) -> dict[str, Any]:
    """The object. `repeats`: of each arm, in order of the seeds, the first of which is `seed`."""
    rows = {name: figures(found) for name, found in repeats.items()}
    own = {**rows[Name.ROWEN], **compared(repeats)}
    told = report("fleet", seed, own, others(rows), ("numpy", "rowen"), BARS)
    return told | {"repeats": {str(name): list(found) for name, found in repeats.items()}}


def run(arm: Arm, shape: Shape, demand: float) -> Found:
    """One arm under one seed."""
    name, seed = arm
    classes = (*DEFAULT_CLASSES, LOCKSTEP)
    jobs = arriving(classes, shape.devices, demand, shape.devices // 2, shape.seconds, seed)
    found = result(simulate(shape, RequestFeed(InTurn(seed)), ENGINE, jobs, variant(name, Policy())))
    evictions = sum(found["counts"]["evictions"].values())
    return {unit: found["figures"].get(unit) for unit in UNITS} | {"evictions": float(evictions)}


def figures(repeats: Sequence[Found]) -> Figures:
    """Medians over the seeds, with the least and the most of the two that have a bar."""
    rows: dict[str, tuple[float | Missing, str]] = {}
    for name, unit in UNITS.items():
        values = [value for repeat in repeats if (value := repeat[name]) is not None]
        rows[name] = (median(values) if values else Missing("there is nothing to count"), unit)
        if values and name in ("utilisation_gain_points", "sla_attainment"):
            rows[f"{name}_least"], rows[f"{name}_most"] = (min(values), unit), (max(values), unit)
    return rows


def compared(repeats: Mapping[Name, Sequence[Found]]) -> Figures:
    """What Rowen has more than others under the same seed: median, with the least."""
    rest = [name for name in repeats if name is not Name.ROWEN]
    beside = {
        "sla_attainment_over_best": ("sla_attainment", rest),
        "devices_saved_over_first_fit": ("devices_saved", [Name.FIRST_FIT]),
    }
    rows: dict[str, tuple[float | Missing, str]] = {}
    for name, (figure, arms) in beside.items():
        unit, more = COMPARED[name], []
        for own, *found in zip(repeats[Name.ROWEN], *(repeats[arm] for arm in arms), strict=True):
            value, known = own[figure], [one[figure] for one in found]
            if value is not None and None not in known:
                more.append(value - max(other for other in known if other is not None))
        none = Missing("there is nothing to compare")
        rows[name], rows[f"{name}_least"] = (median(more) if more else none, unit), (min(more, default=none), unit)
    return rows


def others(rows: dict[Name, Figures]) -> dict[str, Figures]:
    """All arms but Rowen."""
    return {str(name): found for name, found in rows.items() if name is not Name.ROWEN}


if __name__ == "__main__":
    main()
