"""The parts that a task's way is made of where it does not ride. Made, they have changed nothing; run, they have."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from typing_extensions import override

from rowen.runtime.coserve.learner import Linear, Part, Phase
from rowen.runtime.coserve.training.forward import TARGETS
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.way_forward import StepAhead
from rowen.runtime.coserve.training.work import StepBack, Work


@dataclass
class WorkPart(Part):
    """Some of a task's work, of the phase that it is in."""

    phase: Phase
    tokens: int
    context: int
    work: Callable[[], None]
    ended: Callable[[], None]
    through_tokens: int = 0

    @override
    def run(self) -> None:
        with torch.inference_mode():
            self.work()
        self.ended()


def next_part(work: Work, model: Model, most_tokens: int, ended: Callable[[], None]) -> Part:
    """What comes next of a task that has not ended; `ended` is called when the part has run."""
    if work.phase is Phase.FORWARD:
        ahead = work.ahead(most_tokens)
        tokens = sum(step.work_tokens for step in ahead)
        context = sum(step.layers * work.context(step.begin, step.end) for step in ahead)
        through = sum(step.end - step.begin for step in ahead if step.end_layer == model.architecture.layers)
        return WorkPart(Phase.FORWARD, tokens, context, lambda: _ahead(work, model, ahead), ended, through)
    if work.phase is Phase.HEAD:
        rows = work.at_head(most_tokens)
        return WorkPart(Phase.HEAD, len(rows), 0, lambda: work.run_head(rows), ended)
    steps = work.back(most_tokens)
    tokens = sum(step.end - step.begin for step in steps)
    context = sum(work.context(step.begin, step.end) for step in steps)
    through = sum(step.end - step.begin for step in steps if step.is_last)
    return WorkPart(Phase.BACKWARD, tokens, context, lambda: _back(work, steps), ended, through)


def _ahead(work: Work, model: Model, steps: list[StepAhead]) -> None:
    """What rides otherwise, with the linear layers of the model's own."""
    for step in steps:
        forward = work.forward(step)
        for layer in range(step.first_layer, step.end_layer):
            for linear in Linear:
                inputs = forward.enter(layer, linear)
                outputs = [model.linear(layer, target, inputs) for target in TARGETS[linear]]
                forward.leave(layer, linear, torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0])
        forward.finish()
        work.way.went(step)


def _back(work: Work, steps: list[StepBack]) -> None:
    for step in steps:
        work.step_back(step)
