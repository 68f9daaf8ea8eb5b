"""Training that waits for the next request (LeMix, section IV-C, Eq. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowen.scheduler.lemix.allocation import Allocation
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import NodeTrace


@dataclass(frozen=True, slots=True)
class Deferral:
    """Whether a training task waits, and why."""

    deferred: bool
    reason: str


def deferral(
    training: Task,
    allocation: Allocation,
    request: Task | None,
    traces: Sequence[NodeTrace],
    now: float,
    slo_seconds: float,
) -> Deferral:
    """Eq. 4: a training task waits when the next serving task would answer later than τ_R on every node.

    What the text leaves open: the maximum over Qⁿ is taken to be the end of all work that is queued on the last stage,
    backward passes included, since they delay the next forward pass; the training task is part of the queue of the node
    that it would go to; on a node with less work than the request's own way to the last stage, that way counts.
    Without a next serving task nobody would miss anything.
    """
    if request is None:
        return Deferral(False, "no request follows")
    after = [
        trace.after(training, allocation.chosen.plan.path, now) if trace.node == allocation.chosen.node else trace
        for trace in traces
    ]
    response, node = quickest(request, after, now)
    compared = f"the next request would take {response:.3f} s on {node}, {{}} {slo_seconds:.3f} s"
    if response > slo_seconds:
        return Deferral(True, compared.format("more than"))
    return Deferral(False, compared.format("within"))


def quickest(request: Task, traces: Sequence[NodeTrace], now: float) -> tuple[float, str]:
    """The least response of all nodes, in seconds, and where; no further training makes it less."""
    return min((response_seconds(request, trace, now), trace.node) for trace in traces)


def response_seconds(request: Task, trace: NodeTrace, now: float) -> float:
    """Left side of Eq. 4 for one node: queued work, then the request's own last stage, from its arrival."""
    duration = trace.time.forward_seconds(request)
    through = max(request.arrival, now) + (trace.stages - 1) * duration
    return max(trace.last_stage_end(now), through) + duration - request.arrival
