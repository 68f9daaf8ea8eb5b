"""Where things lie in the memory that goes along with a message."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from rowen.runtime.coserve.task import Pair, Place, Target
from rowen.runtime.coserve.task import Sequence as TokenSequence

_Array = numpy.ndarray[Any, Any]
_FLOAT, _INTEGER = numpy.dtype(numpy.float32), numpy.dtype(numpy.int64)


@dataclass(frozen=True)
class AdapterLayout:
    """Weights of an adapter, or their gradients: for each place `a`, then `b`, both float32 and row by row."""

    rank: int
    places: tuple[Place, ...]
    sizes: Mapping[Target, tuple[int, int]]
    """Inputs and outputs of each linear layer."""

    @property
    def size_bytes(self) -> int:
        """Of all of it."""
        return sum(self.rank * sum(self.sizes[target]) for _, target in self.places) * _FLOAT.itemsize

    def pairs(self, buffer: Any) -> dict[Place, Pair]:
        """The matrices as they lie in the buffer, which is of that size."""
        whole = torch.frombuffer(buffer, dtype=torch.float32)
        found: dict[Place, Pair] = {}
        begin = 0
        for place in self.places:
            inputs, outputs = self.sizes[place[1]]
            middle, end = begin + self.rank * inputs, begin + self.rank * (inputs + outputs)
            a, b = whole[begin:middle].view(self.rank, inputs), whole[middle:end].view(outputs, self.rank)
            found[place], begin = Pair(a, b), end
        return found

    def pieces(self, pairs: Mapping[Place, Pair]) -> Iterator[_Array]:
        """What is to be written, in order."""
        for place in self.places:
            for matrix in (pairs[place].a, pairs[place].b):
                yield matrix.detach().to(torch.float32).contiguous().numpy()


def sequences_bytes(sequences: int, tokens: int) -> int:
    """Size of so many sequences with so many tokens together."""
    return (sequences + 2 * tokens) * _INTEGER.itemsize


def sequence_pieces(sequences: Sequence[TokenSequence]) -> Iterator[_Array]:
    """What is to be written of sequences: their lengths, all tokens, all labels; int64."""
    yield numpy.array([len(sequence.tokens) for sequence in sequences], dtype=_INTEGER)
    for sequence in sequences:
        yield sequence.tokens.contiguous().numpy()
    for sequence in sequences:
        yield sequence.labels.contiguous().numpy()


def read_sequences(buffer: Any, sequences: int, tokens: int) -> tuple[TokenSequence, ...]:
    """The sequences as they lie in the buffer, which has their size. Raises `ValueError` for lengths that do not fit.

    What the numbers mean is not looked at.
    """
    whole = torch.frombuffer(buffer, dtype=torch.int64)
    lengths = whole[:sequences].tolist()
    if min(lengths) < 1 or sum(lengths) != tokens:
        raise ValueError(f"the lengths of {sequences} sequences do not make {tokens} tokens")
    ids, labels = whole[sequences:].view(2, tokens)
    return tuple(map(TokenSequence, ids.split(lengths), labels.split(lengths)))
