"""Pictures of a simulation: utilisation over time with and without Rowen, and distributions."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from rowen.simulator.arrays import Floats
from rowen.simulator.loop import Outcome
from rowen.simulator.result import distributions

_MOST_POINTS = 1000
_ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
"""A legend that hides nothing."""
_LABELS = {
    "device_online_fraction": "devices, without Rowen",
    "device_used_fraction": "devices, with Rowen",
    "job_throughput_fraction": "jobs: throughput over throughput alone",
}


def draw(outcome: Outcome, folder: Path) -> tuple[Path, Path]:
    """Writes `utilisation.png` and `cdf.png`. Raises `OSError`."""
    return utilisation(outcome, folder / "utilisation.png"), cdf(outcome, folder / "cdf.png")


def utilisation(outcome: Outcome, path: Path) -> Path:
    """Part of all devices in use, over time."""
    rows = outcome.ledger.series()
    size = -(-len(rows) // _MOST_POINTS)
    means = np.array([rows[at : at + size].mean(axis=0) for at in range(0, len(rows), size)])
    hours = np.arange(len(means)) * size * outcome.shape.step_seconds / 3600.0
    online, harvested = 100.0 * means[:, 0], 100.0 * means[:, 2]
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.fill_between(hours, online, color="tab:blue", alpha=0.6, linewidth=0, label="without Rowen: online")
    axes.fill_between(
        hours, online, online + harvested, color="tab:green", alpha=0.6, linewidth=0, label="with Rowen: offline too"
    )
    axes.set(xlabel="hours", ylabel="device time in use, %", ylim=(0, 100), xlim=(0, max(float(hours[-1]), 1e-9)))
    axes.legend(**_ABOVE)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def cdf(outcome: Outcome, path: Path) -> Path:
    """Distributions of devices' use and of jobs' throughput."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, values in distributions(outcome).items():
        if len(values):
            axes.step(*_steps(values), where="post", label=_LABELS[name])
    axes.set(
        xlabel="part of the time, or of the throughput alone",
        ylabel="part of devices or jobs with no more",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axes.legend(**_ABOVE)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _steps(values: Floats) -> tuple[Floats, Floats]:
    """The curve's corners, from one edge of the picture to the other."""
    ordered = np.concatenate(([0.0], np.sort(values), [1.0]))
    return ordered, np.concatenate((np.arange(len(values) + 1) / len(values), [1.0]))
