"""Which queued requests run together (LeMix, section V-D, Algorithm 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from rowen.scheduler.lemix.task import Task


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Of one node."""

    size: int
    """C: most requests in a batch."""
    wait_seconds: float
    """T_w."""


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """How many tasks from the head of the queue run now, together."""

    count: int
    """0: none now."""
    until: float | None
    """When to look again if nothing comes before; None: when something comes."""
    reason: str


def batch_step(queue: Sequence[Task], opened: float, now: float, limits: BatchLimits) -> BatchDecision:
    """Algorithm 3, one look at a time, at a queue in order of arrival; `opened`: since when its head waits here.

    The listing runs whatever is queued at once, while the text has a batch wait for T_w "even when the batch size is
    not reached": the text is followed. The listing takes a training task out of the queue and puts it nowhere; here it
    ends the batch before it, and runs by itself when it is at the head.
    """
    if not queue:
        return BatchDecision(0, None, "nothing is queued")
    if queue[0].trains:
        return BatchDecision(1, None, "a training task runs by itself")
    count = sum(1 for _ in takewhile(lambda task: not task.trains, islice(queue, limits.size)))
    if count == limits.size:
        return BatchDecision(count, None, f"{count} requests fill the batch")
    if count < len(queue):
        return BatchDecision(count, None, "a training task follows")
    until = opened + limits.wait_seconds
    if now >= until:
        return BatchDecision(count, None, f"waited {now - opened:.3f} s")
    return BatchDecision(0, until, f"{count} of {limits.size} requests, {until - now:.3f} s left to wait")
