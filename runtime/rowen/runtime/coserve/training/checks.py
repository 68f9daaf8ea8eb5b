"""Whether a task's numbers can be worked through. What a job sends is hostile until it was checked here."""

import math

import torch

from rowen.runtime.coserve.task import IGNORED, Adapter, Pair, Place, Sequence, Target, Task, TaskUnsuitable
from rowen.runtime.coserve.training.architecture import Architecture
from rowen.runtime.coserve.training.memory import needed_bytes

HIGHEST_RANK = 512


def check_task(task: Task, architecture: Architecture, dtype: torch.dtype, memory_bytes: int) -> None:
    """Raises `TaskUnsuitable` for a task that cannot be worked through within so much memory.

    Reads every token once; changes nothing, so any thread may call it.
    """
    if not math.isfinite(task.loss_scale):
        raise TaskUnsuitable("the loss scale is not a finite number")
    _check_adapter(task.adapter, architecture)
    for number, sequence in enumerate(task.sequences):
        _check_sequence(number, sequence, architecture)
    needed = needed_bytes(task, architecture, dtype)
    if needed > memory_bytes:
        raise TaskUnsuitable(
            f"the task needs {needed} bytes of memory, of which the engine has {memory_bytes} for riders; "
            "shorter sequences or a lower rank need less"
        )


def _check_adapter(adapter: Adapter, architecture: Architecture) -> None:
    if not math.isfinite(adapter.scaling):
        raise TaskUnsuitable("the adapter's scaling is not a finite number")
    for place, pair in adapter.pairs.items():
        _check_pair(place, pair, architecture)


def _check_pair(place: Place, pair: Pair, architecture: Architecture) -> None:
    layer, target = place
    if not 0 <= layer < architecture.layers or target not in tuple(Target):
        raise TaskUnsuitable(f"the model has no layer {layer} with a {target}")
    if pair.a.dtype != torch.float32 or pair.b.dtype != torch.float32:
        raise TaskUnsuitable(f"the adapter of {target} in layer {layer} is not of float32")
    inputs, outputs = architecture.widths(target)
    rank = pair.a.shape[0] if pair.a.dim() else 0
    if not 1 <= rank <= HIGHEST_RANK:
        raise TaskUnsuitable(f"the adapter's rank is {rank}; it has to be from 1 to {HIGHEST_RANK}")
    if tuple(pair.a.shape) != (rank, inputs) or tuple(pair.b.shape) != (outputs, rank):
        raise TaskUnsuitable(
            f"the adapter of {target} in layer {layer} has the shapes {list(pair.a.shape)} and {list(pair.b.shape)}; "
            f"[{rank}, {inputs}] and [{outputs}, {rank}] fit the model"
        )


def _check_sequence(number: int, sequence: Sequence, architecture: Architecture) -> None:
    tokens, labels = sequence.tokens, sequence.labels
    if tokens.dtype != torch.int64 or labels.dtype != torch.int64 or tokens.dim() != 1 or labels.shape != tokens.shape:
        raise TaskUnsuitable(f"sequence {number}: tokens and labels are no rows of whole numbers of one length")
    if len(tokens) > architecture.longest_tokens:
        raise TaskUnsuitable(
            f"sequence {number} has {len(tokens)} tokens; the model takes {architecture.longest_tokens} at most"
        )
    if not len(tokens):
        return
    low, high = (int(bound) for bound in tokens.aminmax())
    if low < 0 or high >= architecture.vocabulary:
        raise TaskUnsuitable(f"sequence {number} has a token outside of the model's vocabulary")
    learned = labels[labels != IGNORED]
    if not len(learned):
        return
    low, high = (int(bound) for bound in learned.aminmax())
    if low < 0 or high >= architecture.vocabulary:
        raise TaskUnsuitable(f"sequence {number} has a label outside of the model's vocabulary")
