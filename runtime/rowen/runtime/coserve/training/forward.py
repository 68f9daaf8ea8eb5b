"""The way forward of a window of tokens, linear layers left to whoever has them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from rowen.runtime.coserve.learner import Linear
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.attention import attend
from rowen.runtime.coserve.training.bypass import Bypasses
from rowen.runtime.coserve.training.group import Group, Saved
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.norm import norm

TARGETS = {
    Linear.QKV: (Target.QUERY, Target.KEY, Target.VALUE),
    Linear.OUTPUT: (Target.OUTPUT,),
    Linear.GATE_UP: (Target.GATE, Target.UP),
    Linear.DOWN: (Target.DOWN,),
}
"""What a linear layer of the engine's is made of, its outputs in this order."""


@dataclass
class Forward:
    """Tokens `begin` to `end` of a group, in a layer; they have been through those below the first one."""

    model: Model
    group: Group
    bypasses: Sequence[Bypasses]
    begin: int
    end: int
    first_layer: int = 0

    def __post_init__(self) -> None:
        dtype, rows = self.model.weights.dtype, slice(self.begin, self.end)
        if self.first_layer:
            self._stream = self.group.stream[rows].to(dtype)
        else:
            self._stream = functional.embedding(self.group.tokens[rows], self.model.weights.embedding).to(dtype)
        self._inputs = self._stream
        self._stretches = self.group.stretches(self.begin, self.end)
        self._angles = self.group.angles.between(self.begin, self.end)

    @property
    def context(self) -> int:
        """What its tokens attend to in a layer, summed over them."""
        return sum(stretch.context for stretch in self._stretches)

    def enter(self, layer: int, linear: Linear) -> torch.Tensor:
        """As `Window.enter`."""
        weights = self.model.layer(layer)
        if linear is Linear.QKV:
            if self.group.keeps(layer):
                self.group.inputs(layer)[self.begin : self.end] = self._stream
            self._inputs = norm(self._stream, weights.attention_norm, self.model.architecture.epsilon)
        elif linear is Linear.GATE_UP:
            self._inputs = norm(self._stream, weights.mlp_norm, self.model.architecture.epsilon)
        return self._inputs

    def leave(self, layer: int, linear: Linear, outputs: torch.Tensor) -> None:
        """As `Window.leave`."""
        found = self._with_bypasses(layer, linear, outputs)
        if linear is Linear.QKV:
            self._inputs = self._attended(layer, *found)
        elif linear is Linear.GATE_UP:
            gate, up = found
            if (saved := self._saved(layer)) is not None:
                saved.gate[:], saved.up[:] = gate, up
            self._inputs = functional.silu(gate).mul_(up)
        else:
            self._stream = self._stream + found[0]
            if linear is Linear.OUTPUT and (saved := self._saved(layer)) is not None:
                saved.residual[:] = self._stream

    def finish(self) -> None:
        """What the last one made of the tokens is kept, whether or not there are more layers."""
        self.group.stream[self.begin : self.end] = self._stream

    def _saved(self, layer: int) -> Saved | None:
        return self.group.saved(layer, self.begin, self.end)

    def _with_bypasses(self, layer: int, linear: Linear, outputs: torch.Tensor) -> list[torch.Tensor]:
        found, first = [], 0
        for target in TARGETS[linear]:
            width = self.model.architecture.widths(target)[1]
            part = outputs[:, first : first + width]
            first += width
            bypass = self.bypasses[layer].get(target)
            found.append(part if bypass is None else bypass.add_to(part, self._inputs))
        return found

    def _attended(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """[tokens, heads * head_size]; keys and values go into the caches."""
        model, group = self.model, self.group
        heads = self.end - self.begin, -1, model.architecture.head_size
        all_keys, all_values = group.keys[layer], group.values[layer]
        all_values[self.begin : self.end] = values.view(heads)
        rotated = model.rotated_keys(layer, keys.view(heads), self._angles)
        all_keys[self.begin : self.end] = rotated
        if (saved := self._saved(layer)) is not None:
            saved.queries[:] = queries.view(heads)
        rotated = model.rotated_queries(layer, queries.view(heads), self._angles)
        found = torch.empty_like(rotated)
        for stretch in self._stretches:
            rows = slice(stretch.begin - self.begin, stretch.end - self.begin)
            reach = slice(stretch.first, stretch.end)
            found[rows] = attend(rotated[rows], all_keys[reach], all_values[reach])
        return found.flatten(1)
