"""What is learned at each target of a service's latencies, by arms that know no target or are run for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coserving.result import Bounds, Run, kept
from reporting.repeat import values_of
from reporting.report import Figures, Missing

from rowen.demo.verdict.statistics import percentile


@dataclass(frozen=True)
class Target:
    """Both bounds, of which one is varied."""

    metric: str
    """The one that is varied: `ttft` or `tpot`."""
    factor: float
    """Of it, over the server's own."""
    bounds: Bounds

    @property
    def name(self) -> str:
        """In figures."""
        return f"{self.metric}_{self.factor:g}"


def speed_at(runs: Sequence[Run], bounds: Bounds, percent: float) -> float:
    """The most tokens a second of an arm's settings that keep both bounds at the percentile; 0 where none does.

    The arm's user would have tuned it for the target. Runs of one name are repeats of one setting, and count together.
    """
    settings = [[run for run in runs if run.arm == name] for name in dict.fromkeys(run.arm for run in runs)]
    speeds = [
        sum(run.tokens for run in own) / sum(run.seconds for run in own)
        for own in settings
        if _keep(own, bounds, percent)
    ]
    return max(speeds, default=0.0)


def _keep(runs: Sequence[Run], bounds: Bounds, percent: float) -> bool:
    outcomes = [outcome for run in runs for outcome in run.outcomes]
    return all(
        not percentile(values_of(outcomes, metric), percent) > bound
        for metric, bound in (("ttft", bounds.ttft), ("tpot", bounds.tpot))
    )


def attainments(runs: Mapping[Target, Sequence[Run]]) -> Figures:
    """Part of the requests within both bounds, at each target."""
    return {
        f"attainment_{target.name}": (
            kept([outcome for run in own for outcome in run.outcomes], target.bounds),
            "fraction",
        )
        for target, own in runs.items()
    }


def sweep_figures(runs: Mapping[str, Mapping[Target, Sequence[Run]]], arm: str, percent: float) -> Figures:
    """Tokens a second of an arm at each target."""
    return {
        f"finetune_{target.name}": (speed_at(own, target.bounds, percent), "tokens/s")
        for target, own in runs[arm].items()
    }


def over_best(runs: Mapping[str, Mapping[Target, Sequence[Run]]], percent: float) -> Figures:
    """Rowen's speed over the best other arm's at each target, and the most others reach that."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for target, own in runs["rowen"].items():
        others = [speed_at(by[target], target.bounds, percent) for arm, by in runs.items() if arm != "rowen"]
        best = max(others)
        ratio = speed_at(own, target.bounds, percent) / best if best else Missing("no other arm keeps the target")
        figures[f"over_best_other_{target.name}"] = (ratio, "ratio")
    return figures
