"""How much memory tasks take, in bytes. What a job hands over (adapter, tokens) is its own and not counted."""

from collections.abc import Sequence

import torch

from rowen.runtime.coserve.task import Task
from rowen.runtime.coserve.training.architecture import Architecture
from rowen.runtime.coserve.training.attention import BLOCK_TOKENS

GROUP_TOKENS = 1024
"""A task's sequences are worked through in groups of about so many tokens: one's memory is the next one's."""
WINDOW_TOKENS = 256
"""That are computed at once, at most: more are no faster for each."""
HEAD_BYTES = 32 * 2**20
"""For the logits that exist at one time, unless those of one token take more."""
_FLOAT_BYTES = 4
_INDEX_BYTES = 8


def groups_of(lengths: Sequence[int]) -> list[range]:
    """Numbers of the sequences of each group: as many as fit, and one at least."""
    groups: list[range] = []
    begin, tokens = 0, 0
    for number, length in enumerate(lengths):
        if number > begin and tokens + length > GROUP_TOKENS:
            groups.append(range(begin, number))
            begin, tokens = number, 0
        tokens += length
    return [*groups, range(begin, len(lengths))] if lengths else groups


def lowest_layer(task: Task, layers: int) -> int:
    """The first layer that a way back goes down to; `layers` where there is none."""
    if not task.gradients:
        return layers
    return min((layer for layer, _ in task.adapter.pairs), default=layers)


def task_bytes(task: Task, architecture: Architecture, dtype: torch.dtype) -> int:
    """That a task holds from its beginning to its end, at most: its largest group, and twice the adapter's gradients.

    They are copied for the guest, before they are freed.
    """
    tokens = _most_tokens(task)
    kept = architecture.layers - lowest_layer(task, architecture.layers)
    return tokens * token_bytes(architecture, dtype, kept) + 2 * gradient_bytes(task)


def gradient_bytes(task: Task) -> int:
    """Of the adapter's gradients, once."""
    if not task.gradients:
        return 0
    return sum(pair.a.nbytes + pair.b.nbytes for pair in task.adapter.pairs.values())


def _most_tokens(task: Task) -> int:
    """Of its largest group."""
    lengths = task.lengths
    return max((sum(lengths[number] for number in group) for group in groups_of(lengths)), default=0)


def token_bytes(architecture: Architecture, dtype: torch.dtype, kept: int) -> int:
    """Of one token of a group, with so many layers to go back through."""
    keys = 2 * architecture.key_heads * architecture.head_size
    forward = architecture.layers * keys * dtype.itemsize + architecture.hidden * _FLOAT_BYTES
    forward += architecture.head_size * dtype.itemsize + 3 * _INDEX_BYTES
    backward = kept * architecture.hidden * dtype.itemsize + (keys * _FLOAT_BYTES if kept else 0)
    return forward + backward


def saved_token_bytes(architecture: Architecture, dtype: torch.dtype) -> int:
    """Of a token of a group in a layer of which all is kept that a linear layer would compute again."""
    queries, wide = architecture.heads * architecture.head_size, 2 * architecture.intermediate
    return (queries + architecture.hidden + wide) * dtype.itemsize


def saved_layers(task: Task, architecture: Architecture, dtype: torch.dtype, spare_bytes: int) -> int:
    """Of how many layers of the way back that much may be kept within so much more memory than the task needs."""
    tokens = _most_tokens(task)
    if not tokens:
        return 0
    ways = architecture.layers - lowest_layer(task, architecture.layers)
    return max(0, min(ways, spare_bytes // (tokens * saved_token_bytes(architecture, dtype))))


def saved_bytes(task: Task, architecture: Architecture, dtype: torch.dtype, layers: int) -> int:
    """That so many of them take."""
    return layers * _most_tokens(task) * saved_token_bytes(architecture, dtype)


def head_tokens(architecture: Architecture) -> int:
    """Whose logits exist at one time."""
    # Logits, their softmax, and what the matrix product makes of them in the model's type.
    return max(1, HEAD_BYTES // (3 * _FLOAT_BYTES * architecture.vocabulary))


def workspace_bytes(architecture: Architecture, longest: int) -> int:
    """That the work itself takes while it runs, with sequences of so many tokens, at most; whoever's it is.

    The way back of a window: of each token the gate, what goes up, their product, the gradients of these, and as much
    again in between; the same of queries and of the residual stream. And of attention which tokens reach which, the
    scores of a block of tokens with all keys of one head, their softmax, and the gradients of both, and these keys and
    values in float32.
    """
    wide = 8 * architecture.intermediate + 8 * architecture.heads * architecture.head_size + 8 * architecture.hidden
    group = architecture.heads // architecture.key_heads
    scores = 4 * BLOCK_TOKENS * group * longest
    keys = 4 * architecture.head_size * longest
    reach = 3 * WINDOW_TOKENS * longest
    head = max(HEAD_BYTES, 3 * _FLOAT_BYTES * architecture.vocabulary) + 4 * _FLOAT_BYTES * architecture.hidden
    return max(_FLOAT_BYTES * (WINDOW_TOKENS * wide + scores + keys + reach), head)


def task_workspace_bytes(task: Task, architecture: Architecture) -> int:
    """As `workspace_bytes`, for the task's longest sequence."""
    return workspace_bytes(architecture, max(task.lengths, default=0))


def needed_bytes(task: Task, architecture: Architecture, dtype: torch.dtype) -> int:
    """That the engine must have for riders so that the task can be worked through."""
    return task_bytes(task, architecture, dtype) + task_workspace_bytes(task, architecture)
