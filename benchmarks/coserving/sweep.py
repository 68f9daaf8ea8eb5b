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
    return max(_speeds_at(runs, bounds, percent), default=0.0)


def _speeds_at(runs: Sequence[Run], bounds: Bounds, percent: float) -> list[float]:
    """Of each setting that keeps both bounds."""
    settings = [[run for run in runs if run.arm == name] for name in dict.fromkeys(run.arm for run in runs)]
    return [
        sum(run.tokens for run in own) / sum(run.seconds for run in own)
        for own in settings
        if _keep(own, bounds, percent)
    ]


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
    """Rowen's speed over the best other arm's at each target, and the least of these ratios.

    A target that no other arm keeps, or at which those that do learn nothing, has none.
    """
    figures: dict[str, tuple[float | Missing, str]] = {}
    for target, own in runs["rowen"].items():
        others = [
            speed
            for arm, by in runs.items()
            if arm not in ("alone", "rowen")
            for speed in _speeds_at(by[target], target.bounds, percent)
        ]
        figures[f"over_best_other_{target.name}"] = (_over(speed_at(own, target.bounds, percent), others), "ratio")
    known = [ratio for ratio, _ in figures.values() if not isinstance(ratio, Missing)]
    least = min(known) if known else Missing("there is no target at which both can be compared")
    return figures | {"least_over_best_other": (least, "ratio")}


def _over(own: float, others: Sequence[float]) -> float | Missing:
    """`others`: of each setting that keeps the target."""
    if not others:
        return Missing("no other arm keeps the target")
    return own / max(others) if max(others) else Missing("the other arms that keep the target learned nothing")
