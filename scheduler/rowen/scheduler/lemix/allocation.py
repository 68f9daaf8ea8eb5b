"""Which node a task goes to: idleness profit, length consistency, priority (LeMix, section IV-C, Eq. 1 to 3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rowen.scheduler.lemix.plan import Plan, plan
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import NodeTrace


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much in a node's priority.

    Raises:
        ValueError: a weight is out of range; the message names it.
    """

    tolerance_seconds: float
    """τ: idleness beyond the arrival interval that is not held against a node. Below 0 it is the most that an interval
    longer than the idleness counts for a node."""
    response: float = 1.0
    """λ₁."""
    consistency: float = 0.0
    """λ₂, in seconds times tokens, as an IP is in seconds and an LC in 1/token."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.tolerance_seconds):
            raise ValueError(f"tolerance_seconds {self.tolerance_seconds}: must be finite")
        if not 0.0 < self.response < math.inf:
            raise ValueError(f"response {self.response}: must be finite and above 0")
        if not 0.0 <= self.consistency < math.inf:
            raise ValueError(f"consistency {self.consistency}: must be finite and not negative")


@dataclass(frozen=True, slots=True)
class Score:
    """One node for one task."""

    node: str
    plan: Plan
    profit: float
    """IP, in seconds."""
    consistency: float
    """LC, in 1/token."""
    priority: float
    """f."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a task goes, with what was looked at."""

    chosen: Score
    scores: tuple[Score, ...]
    """Of all nodes, in the order they were given in."""

    @property
    def reason(self) -> str:
        """For people: what the chosen node had."""
        best = self.chosen
        return (
            f"{best.node} of {len(self.scores)}: priority {best.priority:.4g} from idleness profit {best.profit:.3f} s"
            f", length consistency {best.consistency:.2g}/token, response {best.plan.response:.3f} s"
        )


def idleness_profit(idleness: float, stages: int, interval: float, tolerance: float) -> float:
    """IP (Eq. 1): −max(II/S − (a − a₋₁), τ), all times in seconds.

    a₋₁ is of the node's last task, as Qⁿ[−1] is in Algorithm 1. On a node that has had none the interval is infinite,
    and IP as high as it can be, −τ.
    """
    return -max(idleness / stages - interval, tolerance)


def node_priority(profit: float, consistency: float, response: float, weights: Weights) -> float:
    """Priority f = (IP + λ₂·LC)/(λ₁·R) (Eq. 3), R above 0.

    Where the numerator is below 0, Eq. 3 would prefer the node that answers latest: dividing by a larger R brings f
    closer to 0. There f is the product, so that a longer response never raises a priority.
    """
    value = profit + weights.consistency * consistency
    slowness = weights.response * response
    return value * slowness if value < 0.0 else value / slowness


def allocate(task: Task, traces: Sequence[NodeTrace], now: float, weights: Weights) -> Allocation:
    """The node with the highest priority; of equal ones the one that answers first, then the first.

    Raises:
        ValueError: there is no node.
    """
    if not traces:
        raise ValueError("traces: at least one node is needed")
    scores = tuple(_score(task, trace, now, weights) for trace in traces)
    return Allocation(max(scores, key=lambda score: (score.priority, -score.plan.response)), scores)


def _score(task: Task, trace: NodeTrace, now: float, weights: Weights) -> Score:
    planned = plan(task, trace, now)
    interval = math.inf if trace.queued is None else max(task.arrival, now) - trace.queued
    profit = idleness_profit(planned.idleness, trace.stages, interval, weights.tolerance_seconds)
    consistency = trace.lengths.consistency(task.length)
    priority = node_priority(profit, consistency, planned.response, weights)
    return Score(trace.node, planned, profit, consistency, priority)
