"""Tasks, and what comes of them without an engine."""

from pathlib import Path

import torch

from rowen.runtime.coserve.task import IGNORED, Adapter, Pair, Place, Result, Sequence, Target, Task, TaskUnsuitable
from rowen.runtime.coserve.training.architecture import read_architecture
from rowen.runtime.coserve.training.learner import MachineLearner

MEMORY_BYTES = 10**8


def task(
    model: Path,
    number: int,
    lengths: tuple[int, ...] = (70, 23),
    gradients: bool = True,
    *,
    rank: int = 4,
    targets: tuple[Target, ...] = tuple(Target),
) -> Task:
    architecture = read_architecture(model)
    draw = torch.Generator().manual_seed(number)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) * 0.05

    def pair(target: Target) -> Pair:
        inputs, outputs = architecture.widths(target)
        return Pair(matrix(rank, inputs), matrix(outputs, rank))

    pairs: dict[Place, Pair] = {(layer, each): pair(each) for layer in range(architecture.layers) for each in targets}
    sequences = []
    for length in lengths:
        tokens = torch.randint(5, architecture.vocabulary, (length + 1,), generator=draw)
        labels = tokens[1:].clone()
        labels[: length // 3] = IGNORED
        sequences.append(Sequence(tokens[:-1], labels))
    return Task(number, Adapter(2.0, pairs), tuple(sequences), 0.25, gradients)


def alone(model: Path, work: Task) -> Result:
    """The result by the same machine, all of it in parts."""
    learner = MachineLearner(model, MEMORY_BYTES)
    with torch.inference_mode():
        learner.add(0, work)
        while (part := learner.part(64)) is not None:
            part.run()
        ((_, result),) = learner.finished()
    if isinstance(result, TaskUnsuitable):
        raise result
    return result


def furthest(one: Result, other: Result) -> float:
    """The greatest difference of a gradient, in parts of its matrix's largest."""
    return max(
        float((mine - others).abs().max() / others.abs().max())
        for place, pair in one.gradients.items()
        for mine, others in ((pair.a, other.gradients[place].a), (pair.b, other.gradients[place].b))
    )
