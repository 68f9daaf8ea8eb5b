"""What fine-tuning gains where prompts wait for one another (`harvest.coServe.deferPrefills`), and requests lose.

The server with Rowen's plugin and the job that rides in it, as `coserve.py` has them, under requests with short prompts
and short answers, so that a large part of the steps have a prompt in them. Arms, those with the job in an engine each,
which is started anew for each block:

    alone              the plain server without fine-tuning: what it keeps by itself
    rowen              prompts are computed as they come
    deferred           they wait for one another, as long as the objective of the time to the first token allows

`gain_load_` is the median over the blocks of what is learned with deferral over what is learned without, and
`gain_least_` and `gain_most_` the least and the most of them. `ttft_p50_` and `ttft_p99_` are over all requests of an
arm, `held_steps_` how many steps a second prompts were held back from. Loads and bounds are those of `coserve.py`, by
the speed of the plain server at these requests. `repeats` has the
raw values. `--quick` takes some 4 minutes, all of it 19.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from coserve import Plan, keep_off_the_device, node_of, restart_rowen, terms_of
from coserving.arms import FIXED
from coserving.load import WARM_UP, Size
from coserving.measuring import Alone, measure
from coserving.node import CoservingNode
from coserving.result import Run, arm_figures, milliseconds, points
from reporting.command import run_command
from reporting.repeat import values_of
from reporting.report import Figures, Missing, report

from rowen.demo.verdict.statistics import percentile

SIZE = Size(prompt=(16, 48), output=8)
ARMS = {"alone": None, "rowen": False, "deferred": True}
"""Whether prompts wait for one another; None: no job rides."""
_NOT_DEFERRED = "prompts are not deferred"

QUICK = Plan((2.0,), blocks=1, seconds=12.0)
FULL = Plan((1.0, 2.0, 3.0), blocks=3, seconds=20.0)


def measure_all(plan: Plan, seed: int) -> tuple[Alone, list[Run]]:
    """Each arm, block by block, under the same requests."""
    order, runs = random.Random(seed), []
    with node_of(("rider",), size=SIZE) as (node, speed):
        for block in range(plan.blocks):
            for name in order.sample(list(ARMS), len(ARMS)):
                arm, defers = FIXED["alone"], ARMS[name]
                if defers is not None:
                    arm, terms = FIXED["rowen"], terms_of(speed.bounds).model_copy(update={"defer_prefills": defers})
                    restart_rowen(node, terms, speed.traffic(1.0, plan.seconds, WARM_UP, seed))
                runs += [
                    measure(node, name, arm, speed.traffic(load, plan.seconds, block, seed)) for load in plan.loads
                ]
        _check_deferring(node, runs)
    return speed, runs


def _check_deferring(node: CoservingNode, runs: Sequence[Run]) -> None:
    """Raises `RuntimeError` where an engine said that it defers nothing, or did not: it is measured against itself."""
    log = node.processes.folder / "rowen.log"
    if _NOT_DEFERRED in log.read_text(errors="replace"):
        raise RuntimeError(f"Rowen's server says: {_NOT_DEFERRED}")
    if not sum(run.held_steps or 0.0 for run in runs if run.arm == "deferred"):
        raise RuntimeError("Rowen's server held no prompt back")


def gains(runs: Sequence[Run]) -> Figures:
    """Of what is learned, block by block, by load."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    speeds = {(run.arm, run.load, run.block): run.tokens / run.seconds for run in runs}
    for load in sorted({run.load for run in runs}):
        blocks = sorted({run.block for run in runs if run.load == load})
        pairs = [(speeds["deferred", load, block], speeds["rowen", load, block]) for block in blocks]
        ratios = [deferred / without for deferred, without in pairs if without]
        for name, of in {"": median, "least_": min, "most_": max}.items():
            gain = of(ratios) if ratios else Missing("nothing is learned without deferral")
            figures[f"gain_{name}load_{load:g}"] = gain, "ratio"
    return figures


def first_tokens(runs: Sequence[Run], arm: str) -> Figures:
    """Medians of an arm's times to the first token, by load."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for load in sorted({run.load for run in runs}):
        outcomes = [one for run in runs if (run.arm, run.load) == (arm, load) for one in run.outcomes]
        figures[f"ttft_p50_load_{load:g}"] = milliseconds(percentile(values_of(outcomes, "ttft"), 50)), "ms"
    return figures


def held_steps(runs: Sequence[Run]) -> Figures:
    """A second, that prompts were held back from with deferral, by load."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for load in sorted({run.load for run in runs}):
        own = [run for run in runs if (run.arm, run.load) == ("deferred", load)]
        held, seconds = sum(run.held_steps or 0.0 for run in own), sum(run.seconds for run in own)
        figures[f"held_steps_load_{load:g}"] = held / seconds, "1/s"
    return figures


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    keep_off_the_device()
    started = time.monotonic()
    speed, runs = measure_all(plan, seed)
    table = points(runs, speed.bounds)
    by_arm = {arm: {**arm_figures(table, arm), **first_tokens(runs, arm)} for arm in ARMS}
    figures = {
        **gains(runs),
        **by_arm["deferred"],
        **held_steps(runs),
        "ttft_bound": (speed.bounds.ttft * 1000, "ms"),
        "tpot_bound": (speed.bounds.tpot * 1000, "ms"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    baselines = {arm: by_arm[arm] for arm in ("alone", "rowen")}
    obj = report("deferral", seed, figures, baselines, ("vllm", "torch", "transformers", "peft", "trl"))
    return obj | {"bounds": asdict(speed.bounds), "repeats": [one.row(speed.bounds) for one in runs]}


def main() -> None:
    """Command line."""
    run_command(
        __doc__, "one load, each arm once, in some 4 minutes", lambda quick, seed: run(QUICK if quick else FULL, seed)
    )


if __name__ == "__main__":
    main()
