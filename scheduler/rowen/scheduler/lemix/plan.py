"""Execution planning: what a task would do to a node (LeMix, section IV-B, Algorithm 1)."""

from dataclasses import dataclass

from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import NodeTrace, Path, Span


@dataclass(frozen=True, slots=True)
class Plan:
    """A task's path on a node, and what it costs. In seconds."""

    path: Path
    idleness: float
    """II: idle time of all stages before this task that no other forward pass can use any more."""
    response: float
    """R: from the task's arrival until its forward pass is done."""


def plan(task: Task, trace: NodeTrace, now: float) -> Plan:
    """Algorithm 1, and the backward path that section IV-B describes.

    Where the listing or the text leave something open:

    - The listing's end_f⁰ is the arrival; of a task that was deferred, `now`, since it cannot start earlier.
    - On a node without a preceding task, task_prev ended just then.
    - After the first training task whose backward pass the forward pass comes before (lines 10 and 11), the loop ends:
      backward passes are in order, so it comes before all later ones too.
    - The listing drops a training task for all later stages as soon as it was in the way at one, so that its backward
      passes there would count as idleness. The text subtracts all that were "executed between the previous and current
      forward", at each stage; so does this.
    - `offset` begins with 0 at each stage (the line is lost), and grows by the planned length of a backward pass.
    - A backward pass waits for the one before it on its stage, so that planned work never overlaps.
    """
    released = max(task.arrival, now)
    previous = trace.forward_ends or (released,) * trace.stages
    duration = trace.time.forward_seconds(task)
    forward: list[Span] = []
    idleness, ready = 0.0, released
    for stage, free in enumerate(previous):
        start = max(ready, free)
        between = 0.0
        for backward in trace.backwards:
            begin, end = backward[stage]
            if start + duration <= begin:
                break
            start = max(start, end)
            if begin >= free:
                between += end - begin
        idleness += start - free - between
        ready = start + duration
        forward.append((start, ready))
    path = Path(tuple(forward), _backward(task, trace, ready) if task.trains else (), trace.lateness)
    return Plan(path, idleness, ready - task.arrival)


def _backward(task: Task, trace: NodeTrace, ready: float) -> tuple[Span, ...]:
    """From the last stage to the first; returned with the first one first."""
    duration = trace.time.backward_seconds(task)
    spans: list[Span] = []
    for stage in reversed(range(trace.stages)):
        if trace.backwards:
            ready = max(ready, trace.backwards[-1][stage][1])
        spans.append((ready, ready + duration))
        ready += duration
    return tuple(reversed(spans))
