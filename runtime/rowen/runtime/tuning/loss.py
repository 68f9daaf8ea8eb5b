"""Batches of examples and their loss."""

from typing import Any

import torch
from torch.nn import functional

from rowen.runtime.tuning.examples import Example

_IGNORED = -100


def batch_loss(model: Any, examples: list[Example]) -> tuple[torch.Tensor, int]:
    """Summed cross entropy of the learned tokens, and how many they are."""
    length = max(len(example.tokens) for example in examples)
    tokens = torch.zeros(len(examples), length, dtype=torch.int64)
    mask = torch.zeros_like(tokens)
    labels = torch.full_like(tokens, _IGNORED)
    for row, example in enumerate(examples):
        count = len(example.tokens)
        tokens[row, :count] = torch.tensor(example.tokens)
        mask[row, :count] = 1
        labels[row, example.given_tokens : count] = tokens[row, example.given_tokens : count]
    logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    # Position i predicts token i + 1.
    targets = labels[:, 1:]
    total = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), targets.flatten(), ignore_index=_IGNORED, reduction="sum"
    )
    return total, int((targets != _IGNORED).sum())


@torch.no_grad()
def mean_loss(model: Any, examples: list[Example], batch_size: int) -> float:
    """Mean loss per learned token over the examples."""
    total, count = 0.0, 0
    for start in range(0, len(examples), batch_size):
        loss, learned = batch_loss(model, examples[start : start + batch_size])
        total += float(loss)
        count += learned
    return total / count
