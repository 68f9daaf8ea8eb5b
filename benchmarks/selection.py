"""What the choice of handles is worth to an offline engine, and how long it takes.

An engine (choice/batching.py) works through a batch job. At random moments the online side takes a part of its memory,
and gives it back 5 s later. The loss is how much slower the job is than without that, over how often memory is taken
and how much. Four ways meet the same requests at the same moments; handles with nothing in them go first in all of
them:

    selective           the agent's choice, by the ledger (node_agent/native/memory/ledger/selection.c)
    fifo                the handle with the oldest block first
    random              any
    nothing_recomputed  the agent's choice, and requests go on where they were once there is memory for them: what the
                        missing memory costs by itself, whatever is chosen

The figure is the part of fifo's loss that selective avoids: the median over the seeds, with its interval, least and
mean over the grid. The engine's stops are left out, since they are the same for all.
"""

import argparse
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, NamedTuple

from choice.batching import Engine, Machine, draw_requests
from choice.chooser import Chooser, ledger_file
from choice.choosing_time import choosing_times
from reporting.blocks import LEAST_BLOCKS, LEAST_COVERAGE, median_interval
from reporting.report import Figures, Missing, print_report, report

from rowen.node_agent.devices.library import agent_library
from rowen.runtime.memory.ledger import NativeLedger

BLOCKS = 8192
PER_MINUTE = (2, 6, 20)
PERCENT = (2, 5, 20)
HOLD_SECONDS = 5.0
PACKED = 2
"""Blocks per handle: of 16 tokens of a model with 56 KiB per token."""
OTHER_PACKED = (1, 8)
OWNERS = 512
ARMS = ("selective", "fifo", "random", "nothing_recomputed")

Choose = Callable[[Engine, int, random.Random], list[int]]


class Selection(NamedTuple):
    """What was found: figures, baselines and the raw values of both."""

    figures: Figures
    baselines: Mapping[str, Figures]
    repeats: Mapping[str, Any]
    """`losses`: cell → of each seed, arm → loss; `choosing`: number of handles → times, beside the jitter."""


@dataclass(frozen=True)
class Cell:
    """How often memory is taken, how much of it, and how many blocks a handle has."""

    per_minute: int
    percent: int
    packed: int = PACKED

    @property
    def name(self) -> str:
        """As part of a figure's name."""
        packed = "" if self.packed == PACKED else f"_packed{self.packed}"
        return f"{self.per_minute}pm_{self.percent}pct{packed}"


def oldest(engine: Engine, wanted: int, _: random.Random) -> list[int]:
    """First handles with nothing in them, then that of the oldest block and so on."""
    since: dict[int, int] = {}
    for block, moment in engine.allocated.items():
        handle = engine.handle_of(block)
        since[handle] = min(since.get(handle, moment), moment)
    return sorted(engine.held, key=lambda handle: since.get(handle, -1))[:wanted]


def any_at_all(engine: Engine, wanted: int, source: random.Random) -> list[int]:
    """First handles with nothing in them, then any."""
    used = set(map(engine.handle_of, engine.allocated))
    handles = sorted(engine.held)
    source.shuffle(handles)
    return sorted(handles, key=used.__contains__)[:wanted]


@contextmanager
def by_ledger(handles: int) -> Iterator[Choose]:
    """The agent's choice, by what the engine's process has noted."""
    with ledger_file(handles, OWNERS) as descriptor:
        chooser = Chooser(descriptor, handles, OWNERS)

        def choose(engine: Engine, wanted: int, source: random.Random) -> list[int]:
            ledger = NativeLedger(agent_library(), descriptor)
            ledger.charge({request.number: request.computed for request in engine.running})
            for request in engine.running:
                ledger.add(request.number, map(engine.handle_of, request.blocks))
            return chooser.choose(oldest(engine, len(engine.held), source), wanted).handles

        yield choose
        chooser.close()


def job_seconds(requests: int, seed: int, cell: Cell, choose: Choose | None, *, forget: bool = True) -> float:
    """How long the job takes; without `choose` nothing is taken."""
    handles = BLOCKS // cell.packed
    engine = Engine(handles, cell.packed, draw_requests(requests, seed), Machine())
    moments, source = random.Random(f"moments {seed}"), random.Random(f"choice {seed}")
    taken: list[tuple[float, list[int]]] = []
    next_moment = moments.expovariate(cell.per_minute / 60)
    while not engine.done:
        while taken and taken[0][0] <= engine.now:
            engine.give(taken.pop(0)[1])
        while choose and next_moment <= engine.now:
            next_moment += moments.expovariate(cell.per_minute / 60)
            # More than half of what is left would not be asked of an engine at once.
            chosen = choose(engine, min(handles * cell.percent // 100, len(engine.held) // 2), source)
            engine.take(chosen, forget=forget)
            taken.append((engine.now + HOLD_SECONDS, chosen))
        engine.step()
    return engine.now


@functools.cache
def undisturbed_seconds(requests: int, seed: int, packed: int) -> float:
    """How long the job takes with all its memory."""
    return job_seconds(requests, seed, Cell(PER_MINUTE[0], PERCENT[0], packed), None)


def losses(requests: int, seed: int, cell: Cell) -> dict[str, float]:
    """Arm → part of the job's throughput that is lost."""
    undisturbed = undisturbed_seconds(requests, seed, cell.packed)
    with by_ledger(BLOCKS // cell.packed) as selective:
        seconds = {
            "selective": job_seconds(requests, seed, cell, selective),
            "fifo": job_seconds(requests, seed, cell, oldest),
            "random": job_seconds(requests, seed, cell, any_at_all),
            "nothing_recomputed": job_seconds(requests, seed, cell, selective, forget=False),
        }
    return {arm: 1 - undisturbed / found for arm, found in seconds.items()}


def _with_interval(name: str, values: Sequence[float]) -> dict[str, tuple[float | Missing, str]]:
    found = median_interval(values)
    missing = Missing(f"{len(values)} of the {LEAST_BLOCKS} seeds that an interval of {LEAST_COVERAGE:.0%} takes")
    return {
        name: (median(values), "fraction"),
        f"{name}_low": (found.low if found else missing, "fraction"),
        f"{name}_high": (found.high if found else missing, "fraction"),
    }


def reduction(found: Sequence[Mapping[str, float]]) -> list[float]:
    """Of each seed the part of fifo's loss that selective avoids."""
    return [1 - loss["selective"] / loss["fifo"] for loss in found]


def loss_figures(cells: Mapping[Cell, Sequence[Mapping[str, float]]]) -> tuple[Figures, dict[str, Figures]]:
    """Figures and baselines from the losses of each cell's seeds."""
    by_arm: dict[str, dict[str, tuple[float | Missing, str]]] = {arm: {} for arm in ARMS}
    reductions: dict[str, tuple[float | Missing, str]] = {}
    for cell, found in cells.items():
        reductions |= _with_interval(f"reduction_{cell.name}", reduction(found))
        for arm in ARMS:
            by_arm[arm][f"loss_{cell.name}"] = (median(loss[arm] for loss in found), "fraction")
    grid = {cell: reduction(found) for cell, found in cells.items() if cell.packed == PACKED}
    medians = {cell: median(values) for cell, values in grid.items()}
    least = min(medians, key=medians.__getitem__)
    name = "selective_vs_fifo_loss_reduction"
    figures = {
        **_with_interval(name, grid[least]),
        f"{name}_mean": (mean(medians.values()), "fraction"),
        f"{name}_max": (max(medians.values()), "fraction"),
        **reductions,
        **by_arm.pop("selective"),
        "seeds": (float(len(grid[least])), "1"),
    }
    return figures, by_arm


def measure_losses(seed: int, quick: bool) -> dict[Cell, list[dict[str, float]]]:
    """Cell → losses of each seed. Quick: a shorter job, the grid's corners and middle, as few seeds as will do."""
    requests, seeds = (500, LEAST_BLOCKS) if quick else (1200, 8)
    corners = [(rate, size) for rate in PER_MINUTE[::2] for size in PERCENT[::2]]
    middle = (PER_MINUTE[1], PERCENT[1])
    grid = [*corners, middle] if quick else [(rate, size) for rate in PER_MINUTE for size in PERCENT]
    cells = [Cell(*where) for where in grid] + [Cell(*middle, packed) for packed in OTHER_PACKED]
    return {cell: [losses(requests, seed + number, cell) for number in range(seeds)] for cell in cells}


def measure_selection(seed: int, quick: bool) -> Selection:
    """What the choice is worth, and its time."""
    cells = measure_losses(seed, quick)
    figures, baselines = loss_figures(cells)
    times, raw_times = choosing_times(seed, quick)
    raw = {"losses": {cell.name: found for cell, found in cells.items()}, "choosing": raw_times}
    return Selection({**figures, **times}, baselines, raw)


def run(seed: int, quick: bool) -> dict[str, Any]:
    """The whole benchmark."""
    found = measure_selection(seed, quick)
    return report("selection", seed, found.figures, found.baselines, ("rowen",)) | {"repeats": found.repeats}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="the corners and the middle of the grid, some 3 minutes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print_report(run(arguments.seed, arguments.quick), arguments.json)


if __name__ == "__main__":
    main()
