"""Sequences of a task that go through the model together, and what is kept of them on the way."""

from bisect import bisect_right
from collections.abc import Sequence as Row
from dataclasses import dataclass
from itertools import accumulate

import torch

from rowen.runtime.coserve.task import IGNORED, Sequence
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.rotation import Angles


@dataclass(frozen=True)
class Stretch:
    """Tokens of one sequence within a window; all are numbers of tokens in the group."""

    first: int
    """Of the sequence."""
    begin: int
    end: int

    @property
    def context(self) -> int:
        """What its tokens attend to, summed over them."""
        before, tokens = self.begin - self.first, self.end - self.begin
        return tokens * before + tokens * (tokens + 1) // 2


@dataclass(frozen=True)
class Saved:
    """Of tokens in a layer, what would take a linear layer to compute again."""

    queries: torch.Tensor
    """[tokens, heads, head_size], not rotated."""
    residual: torch.Tensor
    """[tokens, hidden], the stream between attention and feed-forward network."""
    gate: torch.Tensor
    """[tokens, intermediate]"""
    up: torch.Tensor


class Group:
    """Sequences laid end to end, and their caches (FlexLLM, Algorithm 2).

    On the way forward tokens go from the first to the last, on the way back from the last to the first. Of each layer
    that a way back goes through its inputs are kept, of all layers keys and values, and of the last layers, as far as
    there is memory, what linear layers make; the rest is computed again.
    """

    def __init__(self, sequences: Row[Sequence], model: Model, lowest: int, saved: int = 0) -> None:
        """With a way back down to the layer `lowest`; `saved`: of so many layers nothing takes a linear layer twice."""
        architecture, dtype = model.architecture, model.weights.dtype
        layers, hidden = architecture.layers, architecture.hidden
        self.tokens = torch.cat([sequence.tokens for sequence in sequences])
        self.labels = torch.cat([sequence.labels for sequence in sequences])
        self.size = len(self.tokens)
        lengths = [sequence.tokens.numel() for sequence in sequences]
        self._ends = list(accumulate(lengths))
        each = torch.tensor(lengths)
        # Of each token, how many there are before its sequence.
        before = torch.repeat_interleave(each.cumsum(0) - each, each)
        self.angles: Angles = model.rotation.at(torch.arange(self.size) - before)
        self.learned = (self.labels != IGNORED).nonzero().view(-1)
        """Numbers of the tokens whose labels are learned."""
        self._lowest = lowest
        kept, keys = layers - lowest, (architecture.key_heads, architecture.head_size)
        self._inputs = torch.empty(kept, self.size, hidden, dtype=dtype)
        self._saved = [self._save(model) for _ in range(saved)]
        """From the last layer down."""
        self.keys = torch.empty(layers, self.size, *keys, dtype=dtype)
        """[layers, tokens, key_heads, head_size], rotated."""
        self.values = torch.empty_like(self.keys)
        self.stream = torch.empty(self.size, hidden)
        """[tokens, hidden]: what the last layer that each was in made of it; then the gradient on its way down."""
        self.key_gradient = torch.zeros(self.size if kept else 0, *keys)
        """[tokens, key_heads, head_size], of the layer that the way back is in."""
        self.value_gradient = torch.zeros_like(self.key_gradient)

    def stretches(self, begin: int, end: int) -> list[Stretch]:
        """The parts of its sequences that lie in a window."""
        found, number = [], bisect_right(self._ends, begin)
        first = self._ends[number - 1] if number else 0
        while first < end and number < len(self._ends):
            last = self._ends[number]
            if first < last:
                found.append(Stretch(first, max(first, begin), min(last, end)))
            first, number = last, number + 1
        return found

    def keeps(self, layer: int) -> bool:
        """Whether a layer's inputs are kept."""
        return layer >= self._lowest

    def saved(self, layer: int, begin: int, end: int) -> Saved | None:
        """Of these tokens, in a layer of which more is kept; None: of this one not."""
        number, rows = len(self.keys) - 1 - layer, slice(begin, end)
        if number >= len(self._saved):
            return None
        whole = self._saved[number]
        return Saved(whole.queries[rows], whole.residual[rows], whole.gate[rows], whole.up[rows])

    def _save(self, model: Model) -> Saved:
        architecture, dtype = model.architecture, model.weights.dtype
        heads, wide = (architecture.heads, architecture.head_size), (architecture.intermediate,)
        return Saved(
            *(torch.empty(self.size, *width, dtype=dtype) for width in (heads, (architecture.hidden,), wide, wide))
        )

    def inputs(self, layer: int) -> torch.Tensor:
        """[tokens, hidden], of a layer that keeps them."""
        return self._inputs[layer - self._lowest]
