"""A node's trace queue: what is planned on its stages, as far as it matters to the next task."""

from dataclasses import dataclass

from rowen.scheduler.lemix.lengths import NO_LENGTHS, Lengths
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task

Span = tuple[float, float]
"""Start and end, in seconds."""


@dataclass(frozen=True, slots=True)
class Path:
    """Planned times of one task on one node, a span for each stage, the first stage first."""

    forward: tuple[Span, ...]
    backward: tuple[Span, ...]
    """Empty for a serving task."""
    lateness: tuple[float, ...]
    """The trace's when this was planned."""


@dataclass(frozen=True, slots=True)
class NodeTrace:
    """Qⁿ of Algorithm 1. Times in seconds, one for each stage where a field has several."""

    node: str
    time: StageTime
    lateness: tuple[float, ...]
    """How much later than it was planned each stage's work comes."""
    forward_ends: tuple[float, ...] = ()
    """Of the last task; empty while there was none."""
    queued: float | None = None
    """When the last task was put here; None while there was none."""
    backwards: tuple[tuple[Span, ...], ...] = ()
    """Of training tasks, in order: those that may still be in the way of a new task."""
    lengths: Lengths = NO_LENGTHS

    @property
    def stages(self) -> int:
        """S."""
        return len(self.lateness)

    def last_stage_end(self, now: float) -> float:
        """When the last stage has done all that is queued, forward and backward; `now` if there is nothing."""
        ends = [now, *(backward[-1][1] for backward in self.backwards)]
        return max([*ends, self.forward_ends[-1]] if self.forward_ends else ends)

    def after(self, task: Task, path: Path, now: float) -> "NodeTrace":
        """With one more task.

        Forward passes keep their order, so a backward pass that ends before this one's forward pass, at every stage,
        is in the way of nobody any more. (Algorithm 1 drops it when it was executed, lines 17 and 18.)
        """
        ends = tuple(end for _, end in path.forward)
        planned = (*self.backwards, path.backward) if task.trains else self.backwards
        kept = tuple(backward for backward in planned if _ends_after(backward, ends))
        return NodeTrace(self.node, self.time, self.lateness, ends, now, kept, self.lengths.after(task.length))

    def calibrated(self, stage: int, path: Path, planned: Span, end: float) -> "NodeTrace":
        """With what was measured: `planned`, a pass of `path` on that stage (from 0), ended at `end`.

        Algorithm 2, lines 14 and 17, writes the measured times of one task into the queue. Passes of a stage come one
        after another, so what is queued behind it on that stage is moved by as much.
        """
        drift = end - planned[1] - (self.lateness[stage] - path.lateness[stage])
        ends = _moved(self.forward_ends, stage, drift)
        backwards = []
        for backward in self.backwards:
            start, finish = backward[stage]
            moved = (start + drift, finish + drift)
            backwards.append((*backward[:stage], moved, *backward[stage + 1 :]))
        lateness = _moved(self.lateness, stage, drift)
        return NodeTrace(self.node, self.time, lateness, ends, self.queued, tuple(backwards), self.lengths)


def empty(node: str, time: StageTime, stages: int) -> NodeTrace:
    """Of a node that has had no task."""
    return NodeTrace(node, time, (0.0,) * stages)


def _ends_after(backward: tuple[Span, ...], ends: tuple[float, ...]) -> bool:
    """At any stage."""
    return any(end > done for (_, end), done in zip(backward, ends, strict=True))


def _moved(values: tuple[float, ...], at: int, by: float) -> tuple[float, ...]:
    return (*values[:at], values[at] + by, *values[at + 1 :])
