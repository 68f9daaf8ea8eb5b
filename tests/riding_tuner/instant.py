"""An engine's learner that answers at once, and what it is asked."""

from pathlib import Path

import torch
from riding_tuner.plain_learner import PlainLearner

from rowen.runtime.coserve.task import IGNORED, Result, Sequence, Task

SEQUENCES = (Sequence(torch.tensor([5, 6, 7]), torch.tensor([6, 7, IGNORED])),)


class Instant(PlainLearner):
    """Knows the answer without looking."""

    def __init__(self, model: Path) -> None:
        super().__init__(model)
        self.works = True
        self.weights: list[float] = []

    def part(self, most_tokens: int):  # type: ignore[no-untyped-def]
        return super().part(most_tokens) if self.works else None

    def result(self, task: Task) -> Result:
        self.weights.append(sum(float(pair.b.sum()) for pair in task.adapter.pairs.values()))
        gradients = dict(task.adapter.pairs) if task.gradients else {}
        return Result(task.number, task.number, 2, 1, gradients)
