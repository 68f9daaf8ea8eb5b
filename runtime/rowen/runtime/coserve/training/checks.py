"""Whether a task's numbers can be worked through. What a job sends is hostile until it was checked here."""

import torch

from rowen.runtime.coserve.task import IGNORED, Adapter, Pair, Place, Sequence, Target, Task, TaskUnsuitable
from rowen.runtime.coserve.training.architecture import Architecture
from rowen.runtime.coserve.training.memory import needed_bytes

HIGHEST_RANK = 512
_HIGHEST = torch.finfo(torch.float32).max


def check_task(task: Task, architecture: Architecture, dtype: torch.dtype, memory_bytes: int) -> None:
    """Raises `TaskUnsuitable` for a task that cannot be worked through within so much memory.

    Reads every token once; changes nothing, so any thread may call it.
    """
    if not _is_finite(task.loss_scale):
        raise TaskUnsuitable("the loss scale is not a finite number")
    _check_adapter(task.adapter, architecture)
    _check_sequences(task, architecture)
    needed = needed_bytes(task, architecture, dtype)
    if needed > memory_bytes:
        raise TaskUnsuitable(
            f"the task needs {needed} bytes of memory, of which the engine has {memory_bytes} for riders; "
            "shorter sequences or a lower rank need less"
        )


def _check_adapter(adapter: Adapter, architecture: Architecture) -> None:
    if not _is_finite(adapter.scaling):
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


def _check_sequences(task: Task, architecture: Architecture) -> None:
    for number, sequence in enumerate(task.sequences):
        _check_shape(number, sequence, architecture)
    if not any(task.lengths):
        return
    # All at once: there may be thousands, and it is the engine's time. Only if something is wrong is it looked for.
    if _outside([sequence.tokens for sequence in task.sequences], architecture):
        wrong = next(n for n, each in enumerate(task.sequences) if _outside([each.tokens], architecture))
        raise TaskUnsuitable(f"sequence {wrong} has a token outside of the model's vocabulary")
    if _outside([sequence.labels for sequence in task.sequences], architecture, but=IGNORED):
        wrong = next(n for n, each in enumerate(task.sequences) if _outside([each.labels], architecture, but=IGNORED))
        raise TaskUnsuitable(f"sequence {wrong} has a label outside of the model's vocabulary")


def _check_shape(number: int, sequence: Sequence, architecture: Architecture) -> None:
    tokens, labels = sequence.tokens, sequence.labels
    if tokens.dtype != torch.int64 or labels.dtype != torch.int64 or tokens.dim() != 1 or labels.shape != tokens.shape:
        raise TaskUnsuitable(f"sequence {number}: tokens and labels are no rows of whole numbers of one length")
    if tokens.numel() > architecture.longest_tokens:
        raise TaskUnsuitable(
            f"sequence {number} has {tokens.numel()} tokens; the model takes {architecture.longest_tokens} at most"
        )


def _outside(rows: list[torch.Tensor], architecture: Architecture, but: int | None = None) -> bool:
    """Whether one of the numbers, `but` this one, is no token of the model's."""
    numbers = torch.cat(rows)
    wrong = (numbers < 0) | (numbers >= architecture.vocabulary)
    return bool((wrong if but is None else wrong & (numbers != but)).any())


def _is_finite(number: float) -> bool:
    """In float32, too, in which it is computed with: torch refuses to scale by more."""
    return abs(number) <= _HIGHEST
