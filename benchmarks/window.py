"""What a window over a model's layers costs fine-tuning, and how much memory has to be kept free meanwhile.

**Throughput.** The product's tuner trains a LoRA adapter on one core, with its base model's layers in an arena of a
real pool. The arena is granted memory for all layers, for a half, a quarter ... and for one, which is the least that
works: with less, passes wait. Arms take turns in blocks:

    plain       no window: all weights are the process's own (the baseline)
    layers_N    a window with memory for N layers

`change` is the median over the blocks of tokens per second over those of `plain` in the same block, less 1, with its
interval (`reporting/blocks.py`); `plain`'s is that of its repeats against each other, so what noise makes. The first
steps of a repeat load the weights and do not count. A window also computes each layer's forward pass again on the way
back, which `plain` does not: `over_whole` compares with the window that holds all layers, so by the window's size
alone.

**Reserve.** Harli ("SLO-Aware Co-location of LLM Inference and PEFT-based Finetuning", section 4.3) swaps layers
through such a window, and keeps `(T_swap / SLO_tpot) * max_bs * Mem_kv` free for the engine, since a layer's memory
cannot be released at once (section 4.4). T is measured in three ways, of one layer's handles, as p99:

    copied      the layer's weights are copied out, as in the paper
    returned    the tuner is granted a layer less while it runs, and gives it back when it comes round
    taken       the handles are taken from a process that stands still, as Rowen's reclaim does it

and the formula's reserve with each T is set against what requests of a public trace ask for within T
(`traffic/kv_use.py`, `traffic/reserve.py`), in tokens, for the engine of `headroom.py`. `short` is the part of the
requests at whose start more is needed than the reserve: the formula counts what is decoded, and a prompt comes at once.

`--quick` takes some minutes.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from headroom import ENGINE
from reporting.blocks import Block, Increase, against_itself, increase, there_and_back
from reporting.report import Figures, Missing, print_report, report
from rig.tuner_runs import Place, Tuning
from traffic.kv_use import holdings
from traffic.reserve import Reserve, growths, short_fraction
from traffic.traffic import TRACES

from rowen.demo import samples
from rowen.demo.traffic.excerpt import load
from rowen.demo.verdict.statistics import percentile

PLAIN = "plain"
RESERVE = Reserve(slo_tpot_seconds=0.05, max_sequences=256)
"""The paper's objective (section 4.4), and vLLM's default number of sequences."""


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    shape: samples.Shape
    blocks: int
    steps: int
    """That count, of each repeat."""
    releases: int
    """Of each way."""


_SHAPE = samples.Shape(layers=16, hidden=512, intermediate=1024, heads=8, key_value_heads=2)
QUICK = Plan(_SHAPE, blocks=6, steps=4, releases=20)
FULL = Plan(_SHAPE, blocks=12, steps=16, releases=100)


@dataclass(frozen=True)
class Repeat:
    """One arm, once."""

    arm: str
    block: Block
    tokens_per_second: float


def windows(layers: int) -> list[int]:
    """Numbers of layers in the window: all, and halves of that down to one."""
    found = [layers]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def arm_of(layers: int) -> str:
    """Name of the arm with so many layers in memory."""
    return f"layers_{layers}"


def changes(repeats: Sequence[Repeat], arm: str, base: str) -> Increase:
    """Of the throughput against another arm in the same blocks; against itself: what noise makes."""
    bases = {repeat.block: repeat.tokens_per_second for repeat in repeats if repeat.arm == base}
    if arm == base:
        return against_itself(list(bases.values()))
    own = [repeat for repeat in repeats if repeat.arm == arm]
    return increase([(repeat.tokens_per_second, bases[repeat.block]) for repeat in own])


def arm_figures(repeats: Sequence[Repeat], arm: str, bases: Mapping[str, str]) -> Figures:
    """Throughput, and how it changes: `bases` has the name of the figure, and the arm that it is compared with."""
    speeds = [repeat.tokens_per_second for repeat in repeats if repeat.arm == arm]
    figures: dict[str, tuple[float | Missing, str]] = {"tokens_per_second": (median(speeds), "tokens/s")}
    for name, base in bases.items():
        found = changes(repeats, arm, base)
        interval, missing = found.interval, Missing(found.missing)
        figures[name] = (missing if found.estimate is None else found.estimate, "fraction")
        figures[f"{name}_low"] = (interval.low if interval else missing, "fraction")
        figures[f"{name}_high"] = (interval.high if interval else missing, "fraction")
    return figures | {"repeats": (float(len(speeds)), "1")}


def reserve_figures(releases: dict[str, list[float]]) -> Figures:
    """The formula's reserve with each way's time, beside what the traces ask for within it."""
    held = {name: holdings(load(path), ENGINE) for name, path in TRACES.items()}
    figures: dict[str, tuple[float | Missing, str]] = {}
    for way, times in releases.items():
        seconds = percentile(times, 99)
        reserve = RESERVE.tokens(seconds)
        figures[f"{way}_ms_p50"] = (percentile(times, 50) * 1000, "ms")
        figures[f"{way}_ms_p99"] = (seconds * 1000, "ms")
        figures[f"{way}_reserve_tokens"] = (reserve, "tokens")
        for trace, requests in held.items():
            needs = growths(requests, seconds)
            for name, percent in (("p50", 50), ("p99", 99), ("max", 100)):
                figures[f"{way}_{trace}_need_tokens_{name}"] = (percentile(needs, percent), "tokens")
            figures[f"{way}_{trace}_short"] = (short_fraction(needs, reserve), "fraction")
    return figures


def returned(tuning: Tuning, place: Place, times: int) -> list[float]:
    """How long the running tuner takes, in seconds, to give a layer's handles back of which the grant was taken."""
    whole, found = place.layers * place.layer_handles, []
    tuning.grant(whole)
    end = threading.Event()
    worker = threading.Thread(target=tuning.run_until, args=(end,))
    worker.start()
    try:
        for _ in range(times):
            tuning.wait_held(whole, least=True)
            begin = time.monotonic()
            tuning.grant(whole - place.layer_handles)
            tuning.wait_held(whole - place.layer_handles, least=False)
            found.append(time.monotonic() - begin)
            tuning.grant(whole)
    finally:
        tuning.grant(whole)
        end.set()
        worker.join()
    return found


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    # As a tenant's: the device's core is all that it has.
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    started = time.monotonic()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowen-window-")))
            with redirect_stdout(sys.stderr):
                samples.write_model(folder / samples.MODEL, plan.shape)
            tuning = Tuning(folder, folder / samples.MODEL)
            stack.callback(tuning.close)
            place = tuning.place
            sizes = {arm_of(layers): layers * place.layer_handles for layers in windows(place.layers)}
            # The first job of a process is slower.
            tuning.speed(plan.steps, None)
            repeats: list[Repeat] = []
            for block in there_and_back((0.0,), (PLAIN, *sizes), plan.blocks, random.Random(seed)):
                repeats += [Repeat(arm, block, tuning.speed(plan.steps, sizes.get(arm))) for arm in block.arms]
            releases = {"copied": tuning.copied(plan.releases), "returned": returned(tuning, place, plan.releases)}
            stack.pop_all().close()
        releases["taken"] = _taken(plan.releases, place.layer_handles)
    finally:
        os.sched_setaffinity(0, cpus)
    bases = {"change": PLAIN, "over_whole": arm_of(place.layers)}
    figures: Figures = {
        "layers": (float(place.layers), "1"),
        "layer_handles": (float(place.layer_handles), "1"),
        **{f"{arm}_{name}": row for arm in sizes for name, row in arm_figures(repeats, arm, bases).items()},
        **reserve_figures(releases),
        "reserve_sequences": (float(RESERVE.max_sequences), "1"),
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    found = report(
        "window", seed, figures, {PLAIN: arm_figures(repeats, PLAIN, {"change": PLAIN})}, ("rowen", "torch", "peft")
    )
    found["repeats"] = [
        {"arm": each.arm, "block": each.block.number, "tokens_per_second": each.tokens_per_second} for each in repeats
    ]
    found["release_seconds"] = releases
    return found


def _taken(times: int, handles: int) -> list[float]:
    """In seconds; of a process that stands still."""
    from reclaim import Bench, Samples, device_thread

    samples_found = Samples()
    with ExitStack() as stack, device_thread():
        bench = Bench(stack, huge=False)
        for _ in range(times):
            bench.round(handles, samples_found)
    return [milliseconds / 1000 for milliseconds in samples_found.start]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="6 blocks of 4 steps instead of 12 of 16")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    found = run(QUICK if arguments.quick else FULL, arguments.seed)
    print_report(found, arguments.json)


if __name__ == "__main__":
    main()
