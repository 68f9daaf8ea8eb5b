"""Who works a learner's tasks through: parts alone, or windows that ride in an engine's linear layers."""

from pathlib import Path

import torch

from rowen.runtime.coserve.learner import Linear, Window
from rowen.runtime.coserve.task import Result, Task
from rowen.runtime.coserve.training.forward import TARGETS
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.memory import needed_bytes, saved_bytes
from rowen.runtime.coserve.training.model import Model

MEMORY_BYTES = 10**9


class Engine:
    """Linear layers as an engine fuses them."""

    def __init__(self, folder: Path) -> None:
        self._model = Model.of(folder)

    def run(self, window: Window, layers: int | None = None) -> None:
        """Up to a layer of the model; through the last one by default."""
        for layer in range(window.first_layer, layers or self._model.architecture.layers):
            for linear in Linear:
                inputs = window.enter(layer, linear)
                outputs = [self._model.linear(layer, target, inputs) for target in TARGETS[linear]]
                window.leave(layer, linear, torch.cat(outputs, -1))


def ride(learner: MachineLearner, engine: Engine, most_tokens: int) -> None:
    """All ways forward ride, with parts in between."""
    while learner.upcoming() is not None:
        window = learner.window(most_tokens)
        if window is not None:
            engine.run(window)
            window.finish()
        part = learner.part(most_tokens, forward=False)
        if part is not None:
            part.run()


def run_parts(learner: MachineLearner, most_tokens: int) -> None:
    while (part := learner.part(most_tokens)) is not None:
        assert part.tokens <= most_tokens
        part.run()


def result(learner: MachineLearner, guest: int = 1) -> Result:
    ((found, answer),) = learner.finished()
    assert found == guest
    assert isinstance(answer, Result)
    return answer


def alone(folder: Path, task: Task, most_tokens: int = 256, memory_bytes: int = MEMORY_BYTES) -> Result:
    learner = MachineLearner(folder, memory_bytes)
    learner.add(1, task)
    run_parts(learner, most_tokens)
    return result(learner)


def memory_for(folder: Path, task: Task, layers: int) -> int:
    """With so much of it, what linear layers make is kept of so many layers of the model."""
    model = Model.of(folder)
    architecture, dtype = model.architecture, model.weights.dtype
    saved = saved_bytes(task, architecture, dtype, layers)
    return 2 * (needed_bytes(task, architecture, dtype) + saved) + model.copy_bytes


def furthest(one: Result, other: Result) -> float:
    """The largest difference of gradients, as a part of the largest gradient of its matrix."""
    assert one.gradients.keys() == other.gradients.keys()
    furthest = 0.0
    for place, pair in other.gradients.items():
        for found, expected in ((one.gradients[place].a, pair.a), (one.gradients[place].b, pair.b)):
            furthest = max(furthest, float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)))
    return furthest
