"""Draws what `interference.py --json` printed, as Valve's Fig. 10: latency increases and offline throughput by pair.

python benchmarks/picture.py RESULT.json PICTURE.png
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reporting.figures import BARS

ARMS = {
    "unmanaged": "unmanaged, one group",
    "sched_idle": "SCHED_IDLE",
    "pods": "own pod",
    "step_level": "stops at its steps",
    "wake_every_gap": "no wake rule",
    "rowen": "Rowen",
}
"""Arms with a tenant, in the order in which they are drawn."""
PANELS = {
    "ttft_p99_increase": "TTFT p99, increase",
    "tpot_p99_increase": "TPOT p99, increase",
    "offline_part_of_solo": "offline throughput, part of solo",
}
_COLORS = ("#d62728", "#ff7f0e", "#bcbd22", "#9467bd", "#7f7f7f", "#2ca02c")
_ALL = "all pairs"
_HIGHEST = 2.0
"""Higher bars are cut, with their height beside them."""


def values(obj: Mapping[str, Any], arm: str, figure: str) -> list[float]:
    """Of each pair, and over all of them; NaN where there is none."""
    over_all = obj["figures"] if arm == "rowen" else obj["baselines"].get(arm, {})
    rows = [*(pair.get(arm, {}) for pair in obj["pairs"].values()), over_all]
    found = [row.get(figure, {}).get("value") for row in rows]
    return [math.nan if value is None else float(value) for value in found]


def bounds(obj: Mapping[str, Any], arm: str, figure: str) -> list[tuple[float, float]]:
    """Ends of the intervals, as `values`."""
    low, high = (values(obj, arm, f"{figure}_{end}") for end in ("low", "high"))
    return list(zip(low, high, strict=True))


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = [*(name.replace("_", "\n") for name in obj["pairs"]), _ALL]
    arms = [arm for arm in ARMS if arm == "rowen" or arm in obj["baselines"]]
    figure, axes = pyplot.subplots(len(PANELS), 1, figsize=(13, 9), sharex=True, layout="constrained")
    for axis, (name, label) in zip(axes, PANELS.items(), strict=True):
        _panel(axis, obj, name, arms)
        axis.set_ylabel(label)
        axis.grid(axis="y", alpha=0.3)
    axes[0].legend(ncols=len(arms), loc="upper center", bbox_to_anchor=(0.5, 1.25), fontsize=9)
    axes[-1].set_xticks(range(len(titles)), titles, fontsize=8)
    figure.suptitle("Online latency and offline throughput, each against the same alone", fontsize=11)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, obj: Mapping[str, Any], figure: str, arms: Sequence[str]) -> None:
    width = 0.8 / len(arms)
    for place, arm in enumerate(arms):
        color = _COLORS[list(ARMS).index(arm)]
        for number, value in enumerate(values(obj, arm, figure)):
            if math.isnan(value):
                continue
            x = number + (place - (len(arms) - 1) / 2) * width
            axis.bar(x, min(value, _HIGHEST), width, color=color, label=ARMS[arm] if number == 0 else None)
            if value > _HIGHEST:
                axis.text(x, _HIGHEST, f"{value:.1f}", ha="center", va="bottom", fontsize=6)
            if figure.endswith("_increase"):
                _interval(axis, x, *bounds(obj, arm, figure)[number])
    bar = BARS.get(figure.partition("_")[0])
    if bar is not None and figure.endswith("_increase"):
        axis.axhline(bar, color="black", linewidth=0.8, linestyle="--")
        axis.set_ylim(-0.5, _HIGHEST * 1.08)
    axis.axhline(0, color="black", linewidth=0.5)


def _interval(axis: Any, x: float, low: float, high: float) -> None:
    if not (math.isnan(low) or math.isnan(high)):
        axis.plot([x, x], [max(low, -0.5), min(high, _HIGHEST)], color="black", linewidth=0.8)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.result.read_text(encoding="utf-8")), arguments.picture)


if __name__ == "__main__":
    main()
