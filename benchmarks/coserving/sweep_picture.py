"""Draws what `slo_sweep.py --json` printed, as LLMStation's Fig. 9."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coserving.picture import lines

PANELS = {"finetune_tpot_": "TPOT target over TPOT alone", "finetune_ttft_": "TTFT target over TTFT alone"}


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(12, 5), sharey=True, layout="constrained")
    for axis, (panel, label) in zip(axes, PANELS.items(), strict=True):
        for arm, points in lines(obj, panel).items():
            style = {"linewidth": 2.5, "color": "black"} if arm == "rowen" else {"linewidth": 1.2}
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=arm, **style)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("fine-tuning, tokens/s while the targets are kept")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
