"""How far off a step beside offline work is predicted: both stages of `SharePlanner`, before it learns of the step."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from reporting.report import Figures, Missing

from rowen.runtime.coserve.load import Load

SLOWDOWNS_ENV = "ROWEN_BENCHMARK_SLOWDOWNS"
"""Path of the file, for an engine."""


@dataclass(frozen=True)
class Beside:
    """A step, all of it beside offline work. Times in seconds."""

    at: float
    """Its end, monotonic."""
    tenths: int
    """Of the device, that offline work might use."""
    predicted: float
    measured: float
    alone: float = 0.0
    """Predicted, without offline work."""
    decode_rows: int = 0
    decode_context: int = 0


def log_slowdowns() -> None:
    """Has the engine of this process write a line for each such step, where it is told into which file."""
    if SLOWDOWNS_ENV not in os.environ:
        return
    from rowen.runtime.coserve.planning.spatial import SharePlanner

    observe = SharePlanner.observe_beside
    log = cache(lambda: os.open(os.environ[SLOWDOWNS_ENV], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def observed(planner: SharePlanner, load: Load, seconds: float, tenths: int) -> None:
        alone = planner._seconds(load)
        predicted, rows = alone * planner._slowdowns.factors[tenths], f"{load.decode_rows} {load.decode_context}"
        os.write(log(), f"{time.monotonic()} {tenths} {predicted} {seconds} {alone} {rows}\n".encode())
        observe(planner, load, seconds, tenths)

    SharePlanner.observe_beside = observed  # type: ignore[method-assign,assignment]


def read_slowdowns(path: Path, since: float) -> list[Beside]:
    """Of the steps that ended after that moment; a line that is being written is left out."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()]
    steps = [
        Beside(float(at), int(tenths), float(predicted), float(taken), float(alone), int(rows), int(context))
        for at, tenths, predicted, taken, alone, rows, context in lines
    ]
    return [step for step in steps if step.at > since]


def slowdown_figures(steps: Sequence[Beside]) -> Figures:
    """Mean absolute errors as fractions of what was measured, over all steps and by share; empty without steps."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for tenths in (None, *sorted({step.tenths for step in steps})):
        own = [step for step in steps if tenths in (None, step.tenths)]
        name = "slowdown" if tenths is None else f"slowdown_{tenths}_tenths"
        if own:
            figures[f"{name}_error_mean"] = fmean(abs(step.predicted / step.measured - 1) for step in own), "fraction"
            figures[f"{name}_steps"] = len(own), "steps"
    return figures
