"""A trainer's batch as sequences of tokens, each with what follows it."""

from collections.abc import Iterator, Mapping

import torch

from rowen.runtime.coserve.task import IGNORED, Sequence


def sequences_of(inputs: Mapping[str, torch.Tensor]) -> tuple[Sequence, ...]:
    """The batch's sequences, without what fills them up.

    With an attention mask [rows, tokens] each row is one; without, the only row holds several, one after the other,
    whose positions count from 0.
    """
    return tuple(_sequence(tokens, labels) for tokens, labels in _rows(inputs))


def learned_tokens(sequences: tuple[Sequence, ...]) -> int:
    """Tokens whose loss counts."""
    return sum(int((sequence.labels != IGNORED).sum()) for sequence in sequences)


def _rows(inputs: Mapping[str, torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    ids, labels, mask = inputs["input_ids"], inputs["labels"], inputs.get("attention_mask")
    if mask is not None:
        for row, length in enumerate(mask.sum(1).tolist()):
            yield ids[row, :length], labels[row, :length]
        return
    begins = (inputs["position_ids"][0] == 0).nonzero().flatten().tolist()
    for begin, end in zip(begins, [*begins[1:], ids.shape[1]], strict=True):
        yield ids[0, begin:end], labels[0, begin:end]


def _sequence(tokens: torch.Tensor, labels: torch.Tensor) -> Sequence:
    nothing = labels.new_full((1,), IGNORED)
    return Sequence(tokens=tokens.to(torch.int64), labels=torch.cat([labels[1:], nothing]).to(torch.int64))
