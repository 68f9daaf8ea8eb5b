"""Draws what `predictor.py --json` printed: held-out steps, as they were predicted and as they were."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from predicting.judging import from_cold, frozen, learned
from predicting.measured import Measured

from rowen.runtime.coserve.load import Load


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture. What was predicted is worked out anew, from the raw steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [_step(raw) for raw in obj["steps"]]
    first, rest = steps[: obj["learned_steps"]], steps[obj["learned_steps"] :]
    guesses = frozen(learned(first), rest)
    figure, (scatter, cold) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for label, riding in (("without a window", False), ("with a window", True)):
        pairs = [
            (step.seconds * 1000, guess * 1000)
            for step, guess in zip(rest, guesses, strict=True)
            if (step.load.ride_tokens > 0) == riding
        ]
        scatter.scatter(*zip(*pairs, strict=True), s=6, alpha=0.5, label=label)
    most = max(step.seconds for step in rest) * 1000
    scatter.plot([0, most], [0, most], color="black", linewidth=0.8)
    scatter.set_xlabel("measured, ms")
    scatter.set_ylabel("predicted, ms")
    scatter.legend()
    names, errors = zip(*_cold(first), strict=True)
    cold.bar(names, errors)
    cold.set_xlabel("steps of a predictor that has just begun")
    cold.set_ylabel("mean error of the prediction, %")
    for axis in (scatter, cold):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _step(raw: Mapping[str, float]) -> Measured:
    load = {name: int(value) for name, value in raw.items() if name in Load.__dataclass_fields__}
    return Measured(Load(**load), raw["seconds"], raw["processor_seconds"])


def _cold(steps: Sequence[Measured]) -> Sequence[tuple[str, float]]:
    figures = from_cold(steps)
    return [(" to ".join(name.split("_")[1:3]), value * 100) for name, (value, _) in figures.items()]
