"""Draws what `coserve.py --json` printed, as FlexLLM's Fig. 10 and 11."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PANELS = {
    "finetune_load_": "fine-tuning, tokens/s",
    "attainment_load_": "requests within the bounds",
    "ttft_p99_load_": "TTFT p99, ms",
    "tpot_p99_load_": "TPOT p99, ms",
}


def lines(obj: Mapping[str, Any], panel: str) -> dict[str, list[tuple[float, float]]]:
    """Arm → its figures by load, in order; values that are missing are left out."""
    arms = {"rowen": obj["figures"], **obj["baselines"]}
    found = {}
    for arm, figures in arms.items():
        own = [
            (float(name.removeprefix(panel)), row["value"])
            for name, row in figures.items()
            if name.startswith(panel) and row["value"] is not None
        ]
        found[arm] = sorted(own)
    return found


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture."""
    title = "Fine-tuning beside a service, by how the device is shared"
    draw_panels(obj, PANELS, title, path, logarithmic="ms")


def draw_arms(axis: Any, obj: Mapping[str, Any], panel: str, label: str) -> None:
    """One panel, arms over loads."""
    for arm, points in lines(obj, panel).items():
        style = {"linewidth": 2.5, "color": "black"} if arm == "rowen" else {"linewidth": 1.2}
        if points:
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=arm, **style)
    axis.set_ylabel(label)
    axis.grid(alpha=0.3)


def draw_panels(
    obj: Mapping[str, Any], panels: Mapping[str, str], title: str, path: Path, logarithmic: str | None = None
) -> None:
    """Four panels, arms over loads; `logarithmic`: the end of the labels whose scale is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(13, 9), sharex=True, layout="constrained")
    for axis, (panel, label) in zip(axes.flat, panels.items(), strict=True):
        draw_arms(axis, obj, panel, label)
        if logarithmic is not None and label.endswith(logarithmic):
            axis.set_yscale("log")
    for axis in axes[-1]:
        axis.set_xlabel("requests in flight on average, were none to wait")
    handles, arms = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, arms, loc="outside lower center", ncols=6, fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
