"""Draws what `spatial.py --json` printed: Harli's Fig. 11, and the share over time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coserving.picture import draw_arms

PANELS = {
    "finetune_load_": "fine-tuning, tokens/s",
    "attainment_load_": "requests within the bounds",
    "tpot_p99_load_": "TPOT p99, ms",
}
_SHOWN_SECONDS = 20.0


def share_steps(obj: Mapping[str, Any]) -> tuple[str, list[tuple[float, float]]]:
    """The highest load, and what the gate was open for in the first seconds under it, the first time."""
    load = max(obj["shares"], key=float)
    steps: list[tuple[float, float]] = []
    for sample in obj["shares"][load]:
        # Each repeat has a clock of its own.
        if sample["at"] > _SHOWN_SECONDS or (steps and sample["at"] < steps[-1][0]):
            break
        steps.append((sample["at"], sample["part"]))
    return load, steps


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(13, 9), layout="constrained")
    for axis, (panel, label) in zip(axes.flat, PANELS.items(), strict=False):
        draw_arms(axis, obj, panel, label)
        axis.set_xlabel("requests in flight on average, were none to wait")
    axes[1, 0].set_yscale("log")
    load, steps = share_steps(obj)
    axes[1, 1].step(*zip(*steps, strict=True), where="post", color="black", linewidth=1)
    axes[1, 1].set(ylim=(0, 1.05), xlabel=f"seconds, at load {load}", ylabel="part of the device for fine-tuning")
    axes[1, 1].grid(alpha=0.3)
    handles, arms = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, arms, loc="outside lower center", ncols=9, fontsize=8)
    figure.suptitle("Fine-tuning of another model beside a service, on a share of the device")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
