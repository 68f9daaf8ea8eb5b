"""A trainer's batch as sequences."""

import torch

from rowen.runtime.coserve.task import IGNORED
from rowen.runtime.tuning.riding.batches import learned_tokens, sequences_of

N = IGNORED


def test_rows_without_what_fills_them_up() -> None:
    inputs = {
        "input_ids": torch.tensor([[1, 2, 3], [4, 5, 0]]),
        "labels": torch.tensor([[N, 2, 3], [4, 5, N]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
    }
    found = sequences_of(inputs)
    assert [sequence.tokens.tolist() for sequence in found] == [[1, 2, 3], [4, 5]]
    assert [sequence.labels.tolist() for sequence in found] == [[2, 3, N], [5, N]]
    assert learned_tokens(found) == 3


def test_packed_rows_are_apart() -> None:
    inputs = {
        "input_ids": torch.tensor([[1, 2, 3, 4, 5, 6]]),
        "labels": torch.tensor([[N, 2, 3, N, 5, N]]),
        "position_ids": torch.tensor([[0, 1, 2, 0, 1, 0]]),
    }
    found = sequences_of(inputs)
    assert [sequence.tokens.tolist() for sequence in found] == [[1, 2, 3], [4, 5], [6]]
    assert [sequence.labels.tolist() for sequence in found] == [[2, 3, N], [5, N], [N]]
