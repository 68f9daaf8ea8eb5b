"""What it is worth that memory changes its owner: offline throughput and online latency, beside three other ways.

A real vLLM server and a real batch worker, each with its key-value cache in the pool of one device, which is served as
a node's agent does it. The server answers requests of public traces; arms take turns under the same requests, in blocks
(`harvest/arms.py`):

    alone             no offline work: what latencies are compared with
    rowen             memory that changes its owner, with the service's default settings
    rowen_60          the same with a target of 60 reclaims an hour instead of 12: more memory, more interference
    static            StaticMem of Valve (section 7.2): the least free memory of the last hour, and a kill above it
    never_reclaimed   memory that is shared, and never taken from a request (Prism-like; section 7.2)

Only memory differs. The gate is the same in all arms but `alone`, where it is held closed: it closes with the first
request in flight, and opens by the wake rule. Where an arm makes the server slower its worker has less time; what it
does per second in which it had the device, and was there, is a figure of its own.

First the server's speed is measured, and the requests are thinned and their prompts scaled to that and to the pool
(`harvest/load.py`). Then the server alone answers each trace from its start on (`harvest/history.py`): what it used is
the hour that StaticMem goes by, and that Rowen's headroom policy has behind it. `busy` and `peak` are of that.

Time runs 20 times as fast as in the trace, for the headroom policy too, and for the start of a worker that was killed:
60 s of the trace. What a killed worker had done counts for it. What is late by itself, by a gate that closes or memory
that is zeroed, is not faster: it weighs 20 times as much on offline work as it would.

`offline_part_of_solo` is the worker's throughput over that which it has by itself with all the memory, in this run.
`offline_vs_...` are medians over the blocks of ratios, `_min` and `_max` the least and the largest of the stretches'
medians, each with its interval (`reporting/blocks.py`); increases are as in `interference.py`.

`repeats` has the raw values. `--quick` takes some 6 minutes on two quiet cores, all of it some 25.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from harvest.figures import arm_figures, offline_lines, versus_figures
from harvest.history import History, Load, make_load, recorded
from harvest.load import SPEED, Speeds, Stretch, Use, requests_of, sized
from harvest.node import CORE, MEMORY, SHAPE, HarvestNode
from harvest.speeds import measured_speeds
from harvest.turns import Turn, Turns
from headroom import PEAK_PART
from reporting.blocks import there_and_back
from reporting.figures import latency_lines, verdicts
from reporting.report import Figures, Missing, print_report, report
from traffic.traffic import TRACES

from rowen.demo import samples
from rowen.demo.traffic.excerpt import TraceRow
from rowen.demo.traffic.excerpt import load as load_trace
from rowen.demo.traffic.scaling import Scaling

ARMS = ("alone", "rowen", "rowen_60", "static", "never_reclaimed")
OTHERS = tuple(arm for arm in ARMS if arm != "rowen")
_SOLO_SECONDS = 6.0
_HIGHEST_PEAK = 0.9
"""Part of the pool that the server, recorded, may have needed at most; where it is more, it is recorded again."""
_MOST_RECORDINGS = 3


@dataclass(frozen=True)
class Plan:
    """What is replayed, and how often."""

    stretches: tuple[Stretch, ...]
    blocks: int
    """Of each stretch."""


QUICK = Plan((Stretch("code", 600.0, 100.0), Stretch("conv", 300.0, 100.0)), blocks=2)
FULL = Plan(
    (
        Stretch("code", 1500.0, 200.0),
        Stretch("code", 3000.0, 200.0),
        Stretch("conv", 500.0, 200.0),
    ),
    blocks=6,
)


def solo(node: HarvestNode, turns: Turns) -> float:
    """Tokens per second of the worker without requests, with all the memory."""
    with turns.everything():
        time.sleep(_SOLO_SECONDS / 2)
        begin, before = time.monotonic(), node.counts().tokens
        time.sleep(_SOLO_SECONDS)
        return (node.counts().tokens - before) / (time.monotonic() - begin)


@dataclass(frozen=True)
class Measured:
    """All that a run has seen."""

    turns: list[Turn]
    solo: list[float]
    """The worker's throughput by itself before and after the turns, in tokens per second."""
    load: Figures
    """How the requests came to be what they are."""


def recorded_load(
    node: HarvestNode, rows: Sequence[TraceRow], seconds: float, speeds: Speeds, seed: int
) -> tuple[Scaling, Use, History]:
    """Rules for the trace's first seconds, what they need by the simulation, and what the server needed with them.

    A server that needs more than the simulation knows of gets less to do: with all of the pool filled StaticMem would
    have nothing to give, and Rowen's policy would keep it all.
    """
    part = PEAK_PART
    for _ in range(_MOST_RECORDINGS):
        rules, use = sized(rows, seconds, speeds, MEMORY, seed, part)
        history = recorded(node, requests_of(rows, rules, 0.0, seconds), seconds)
        if history.peak <= _HIGHEST_PEAK * MEMORY.handles:
            break
        part *= PEAK_PART * MEMORY.handles / history.peak
    return rules, use, history


def loads(plan: Plan, node: HarvestNode, turns: Turns, seed: int) -> tuple[list[Load], Figures]:
    """The stretches' requests, sized to the engine and with what came before them."""
    found: dict[Stretch, Load] = {}
    figures: dict[str, tuple[float | Missing, str]] = {}
    with turns.alone():
        speeds = measured_speeds(node.url)
        figures |= {f"engine_{name}_ms": (seconds * 1000, "ms") for name, seconds in asdict(speeds).items()}
        for trace in dict.fromkeys(stretch.trace for stretch in plan.stretches):
            rows, own = load_trace(TRACES[trace]), [stretch for stretch in plan.stretches if stretch.trace == trace]
            seconds = max(stretch.start + stretch.seconds for stretch in own)
            rules, use, history = recorded_load(node, rows, seconds, speeds, seed)
            found |= {stretch: make_load(rows, rules, stretch, history, MEMORY) for stretch in own}
            figures |= {
                f"{trace}_kept": (rules.keep, "fraction"),
                f"{trace}_prompt_factor": (rules.prompt_factor, "tokens/token"),
                f"{trace}_busy": (history.busy, "fraction"),
                f"{trace}_peak": (history.peak / MEMORY.handles, "fraction"),
                f"{trace}_busy_simulated": (use.busy_seconds * SPEED / seconds, "fraction"),
                f"{trace}_peak_simulated": (use.peak / MEMORY.handles, "fraction"),
            }
    for stretch, load in found.items():
        figures[f"{stretch.name}_static_part"] = (load.static_part / MEMORY.handles, "fraction")
    return [found[stretch] for stretch in plan.stretches], figures


def measure_all(plan: Plan, seed: int) -> Measured:
    """Starts everything, and gives all arms their turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowen-harvest-memory-")))
        with redirect_stdout(sys.stderr):
            samples.write_model(folder / samples.MODEL, SHAPE)
        pages = Path("/dev/shm") / f"rowen-benchmark-{os.getpid()}"
        stack.callback(shutil.rmtree, pages, ignore_errors=True)
        node = HarvestNode(folder, pages)
        stack.callback(node.close)
        node.wait_ready()
        turns = Turns(node)
        replays, load = loads(plan, node, turns, seed)
        speeds = [solo(node, turns)]
        found: list[Turn] = []
        order = random.Random(seed)
        for replay in replays:
            blocks = there_and_back((replay.stretch.start,), ARMS, plan.blocks, order, len(found) // len(ARMS))
            found += [turns.turn(arm, block, replay) for block in blocks for arm in block.arms]
        node.wait_worker()
        speeds.append(solo(node, turns))
    return Measured(found, speeds, load)


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise RuntimeError("one core is too few: the device needs one of its own")
    os.sched_setaffinity(0, others)
    started = time.monotonic()
    measured = measure_all(plan, seed)
    turns, alone = measured.turns, sum(measured.solo) / len(measured.solo)
    figures: Figures = {
        **arm_figures(turns, "rowen", alone),
        **versus_figures(turns),
        **versus_figures(turns, "rowen_60"),
        "solo_tokens_per_second": (alone, "tokens/s"),
        "solo_spread": (max(measured.solo) / min(measured.solo) - 1, "fraction"),
        **measured.load,
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    obj = report(
        "harvest_memory",
        seed,
        figures,
        {arm: arm_figures(turns, arm, alone) for arm in OTHERS},
        ("rowen", "vllm", "torch"),
    )
    repeats = [turn.repeat for turn in turns]
    obj["verdicts"] = verdicts(repeats, [arm for arm in ARMS if arm != "alone"])
    obj["repeats"] = [turn.row(seed) for turn in turns]
    return obj


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument(
        "--quick", action="store_true", help="2 stretches of 5 s, twice, instead of 3 of 10 s, six times"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    # A run that is told to end takes its processes and cgroups with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    obj = run(QUICK if arguments.quick else FULL, arguments.seed)
    print_report(obj, arguments.json)
    if not arguments.json:
        print("\n" + "\n".join([*offline_lines(obj), *latency_lines(obj)]))


if __name__ == "__main__":
    main()
