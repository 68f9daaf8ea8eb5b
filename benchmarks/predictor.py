"""How well a step's time is predicted, and how long a decision takes.

A real vLLM (8 layers of 512, float32, eager, one core) serves drawn traffic: prompts of 16 to 500 tokens in chunks,
answers of 8 to 160, 1 to 16 requests at once; in every other step or so a window of a real fine-tuning task rides, of
4 to 128 tokens. The predictor of the product learns from the first part of the steps. The rest is held out:

    solo_error_mean        mean absolute error of held-out steps without a window, as a fraction of what was measured
    colocated_error_mean   of those with one
    planner_us             a decision that is made anew; `planner_cached_us`: one that was made before
    step_us_N              all that the engine does around a step of N decoding requests while nobody has a seat
    cold_A_B_error_mean    of a predictor that has just begun, with the default: its A-th to B-th step

`solo_noise_mean` and `colocated_noise_mean` say how far apart two such steps of the same rows and contexts are that
follow each other closely: no prediction can be better than that on the machine. Beside them, on the same steps:

    online                 the predictor goes on learning: each step is predicted before it is learned
    harli                  straight lines (Eq. 2 with a term for each kind of rows), fitted to the first part at once
    processor_time         the thread's processor time in place of the time: what others have of the core is left out
    processor_time_harli   straight lines for that
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from predicting.engine import engine
from predicting.following import step_microseconds
from predicting.judging import (
    Errors,
    errors,
    from_cold,
    frozen,
    harli,
    learned,
    noise,
    online,
    planner_microseconds,
)
from predicting.measured import Measured
from predicting.picture import draw
from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import Figures, Missing, report
from rig.wide_model import widen

from rowen.demo import samples

BARS: Bars = {
    "solo_error_mean": (0.03, "at most"),
    "colocated_error_mean": (0.05, "at most"),
    "planner_us": (18.0, "at most"),
    "planner_cached_us": (1.0, "at most"),
}
RUNNING = (1, 16, 64)
SHAPE = samples.Shape(layers=8, hidden=512, intermediate=1024, heads=8, key_value_heads=2)


@dataclass(frozen=True)
class Plan:
    """Steps to learn from, and held out."""

    learned: int
    held_out: int


QUICK, FULL = Plan(600, 300), Plan(2000, 1000)
_ROUNDS = 2000


def measured(plan: Plan, seed: int) -> tuple[list[Measured], list[Measured]]:
    """The steps to learn from, and those held out."""
    with tempfile.TemporaryDirectory(prefix="rowen-predictor-") as folder, redirect_stdout(sys.stderr):
        model = Path(folder) / samples.MODEL
        samples.write_model(model, SHAPE)
        widen(model)
        with engine(model, seed) as running:
            # The first steps make what later ones find made.
            running.steps(50)
            return running.steps(plan.learned), running.steps(plan.held_out)


def rows(name: str, found: Errors) -> Figures:
    """Of one kind of steps."""
    units = {"mean": "fraction", "median": "fraction", "p95": "fraction", "r_squared": "1", "steps": "1"}
    return {
        f"{name}_{figure if figure in ('steps', 'r_squared') else f'error_{figure}'}": (value, units[figure])
        for figure, value in asdict(found).items()
    }


def by_kind(steps: Sequence[Measured], predicted: Sequence[float]) -> Figures:
    """Errors of steps without and with a window, and of steps that only decode."""
    pairs = list(zip(steps, predicted, strict=True))
    kinds = {
        "solo": [pair for pair in pairs if not pair[0].load.ride_tokens],
        "colocated": [pair for pair in pairs if pair[0].load.ride_tokens],
        "solo_decode": [pair for pair in pairs if not pair[0].load.ride_tokens and not pair[0].load.prefill_tokens],
    }
    found: dict[str, tuple[float | Missing, str]] = {}
    for name, chosen in kinds.items():
        found |= rows(name, errors([guess for _, guess in chosen], [step.seconds for step, _ in chosen]))
    return found


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    first, rest = measured(plan, seed)
    predictor = learned(first)
    anew, kept = planner_microseconds(predictor, rest)
    figures: Figures = {
        **by_kind(rest, frozen(predictor, rest)),
        "solo_noise_mean": (noise((*first, *rest), riding=False), "fraction"),
        "colocated_noise_mean": (noise((*first, *rest), riding=True), "fraction"),
        "planner_us": (anew, "us"),
        "planner_cached_us": (kept, "us"),
        **{f"step_us_{count}": (step_microseconds(predictor, count, _ROUNDS), "us") for count in RUNNING},
        **from_cold(first),
        "step_ms_median": (statistics.median(step.seconds for step in rest) * 1000, "ms"),
        "load_average": (os.getloadavg()[0], "1"),
    }
    own_first, own_rest = ([step.undisturbed for step in steps] for steps in (first, rest))
    baselines: Mapping[str, Figures] = {
        "online": by_kind(rest, online(learned(first), rest)),
        "harli": by_kind(rest, harli(first, rest)),
        "processor_time": by_kind(own_rest, frozen(learned(own_first), own_rest)),
        "processor_time_harli": by_kind(own_rest, harli(own_first, own_rest)),
    }
    found = report("predictor", seed, figures, baselines, ("rowen", "torch", "vllm"), BARS)
    found["learned_steps"] = len(first)
    found["steps"] = [raw_of(step) for step in (*first, *rest)]
    return found


def raw_of(step: Measured) -> dict[str, float]:
    """As it stands in the report."""
    load = {name: value for name, value in asdict(step.load).items() if value}
    return {**load, "seconds": step.seconds, "processor_seconds": step.processor_seconds}


def main() -> None:
    """Command line."""
    run_command(
        __doc__,
        "900 steps instead of 3,000",
        lambda quick, seed: run(QUICK if quick else FULL, seed),
        draw,
    )


if __name__ == "__main__":
    main()
