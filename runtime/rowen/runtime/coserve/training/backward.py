"""The way back of a window of tokens through one layer (FlexLLM, Algorithm 2).

Of the way forward there are the layer's inputs and the rotated keys and values, and where there is memory for it what
linear layers have made; the rest is computed again. Windows come from the last token to the first: when a window's turn
comes, all that attends to it has been, and the gradients of its keys and values are complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.attention import attend, attend_backward
from rowen.runtime.coserve.training.bypass import Bypasses
from rowen.runtime.coserve.training.group import Group, Saved
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.norm import norm, norm_backward
from rowen.runtime.coserve.training.rotation import Angles

_BEFORE_ATTENTION = frozenset({Target.QUERY, Target.KEY, Target.VALUE})
_BEFORE_MLP = _BEFORE_ATTENTION | {Target.OUTPUT}
_BEFORE_DOWN = _BEFORE_MLP | {Target.GATE, Target.UP}


@dataclass
class Backward:
    """Tokens `begin` to `end` of a group, in one layer."""

    model: Model
    group: Group
    bypasses: Bypasses
    layer: int
    begin: int
    end: int
    goes_on: bool
    """Whether a layer below has a way back; else what is before the layer's lowest bypass needs no gradient."""
    _attention_outputs: torch.Tensor | None = field(init=False, default=None)

    def run(self) -> None:
        """Replaces the gradient of the layer's outputs in the group's stream by that of its inputs."""
        residual = self.group.inputs(self.layer)[self.begin : self.end]
        weights, epsilon = self.model.layer(self.layer), self.model.architecture.epsilon
        inputs = norm(residual, weights.attention_norm, epsilon)
        saved = self.group.saved(self.layer, self.begin, self.end) or self._made(inputs, residual)
        queries = self.model.rotated_queries(self.layer, saved.queries, self._angles)
        gradient = self.group.stream[self.begin : self.end]
        if not self._mlp(saved, gradient):
            return
        attended = self._attended(queries) if Target.OUTPUT in self.bypasses else None
        change = self._back({Target.OUTPUT: gradient}, attended, wanted=self._goes_to(_BEFORE_ATTENTION))
        if change is None:
            return
        found = self._attention(inputs, saved.queries, queries, change.view(queries.shape))
        if found is not None:
            gradient += norm_backward(found, residual, weights.attention_norm, epsilon)

    def _made(self, inputs: torch.Tensor, residual: torch.Tensor) -> Saved:
        """What linear layers made on the way forward, computed again."""
        heads = self._linear(Target.QUERY, inputs).view(len(inputs), -1, self.model.architecture.head_size)
        attended = self._attended(self.model.rotated_queries(self.layer, heads, self._angles))
        residual = residual + self._linear(Target.OUTPUT, attended)
        inputs = norm(residual, self.model.layer(self.layer).mlp_norm, self.model.architecture.epsilon)
        return Saved(heads, residual, self._linear(Target.GATE, inputs), self._linear(Target.UP, inputs))

    def _mlp(self, saved: Saved, gradient: torch.Tensor) -> bool:
        """Adds to the gradient what comes back through the feed-forward network; False: nothing before it needs it.

        Works in the saved tensors: nobody needs them again.
        """
        weight, epsilon = self.model.layer(self.layer).mlp_norm, self.model.architecture.epsilon
        inputs = norm(saved.residual, weight, epsilon)
        gate, up = saved.gate.float(), saved.up.float()
        sigmoid = torch.sigmoid(gate)
        active = gate.mul_(sigmoid)
        product = (active * up).to(inputs.dtype) if Target.DOWN in self.bypasses else None
        change = self._back({Target.DOWN: gradient}, product, wanted=self._goes_to(_BEFORE_DOWN))
        if change is None:
            return False
        # silu'(g) = s + g s (1 - s) = s + silu(g) (1 - s), with s = sigmoid(g).
        slope = torch.addcmul(active, active, sigmoid, value=-1).add_(sigmoid)
        gradients = {Target.GATE: up.mul_(change).mul_(slope), Target.UP: change.mul_(active)}
        found = self._back(gradients, inputs, wanted=self._goes_to(_BEFORE_MLP))
        if found is None:
            return False
        gradient += norm_backward(found, saved.residual, weight, epsilon)
        return True

    def _attention(
        self, inputs: torch.Tensor, heads: torch.Tensor, queries: torch.Tensor, change: torch.Tensor
    ) -> torch.Tensor | None:
        """Gradient of the attention's inputs, of that [tokens, heads, head_size] of what was attended to."""
        weights, rows = self.model.layer(self.layer), slice(self.begin, self.end)
        query_gradient = self._before_rotation(self._through_attention(queries, change), heads, weights.query_norm)
        keys = inputs
        if weights.key_norm is not None:
            keys = self._linear(Target.KEY, inputs).view(len(inputs), -1, self.model.architecture.head_size)
        key_gradient = self._before_rotation(self.group.key_gradient[rows], keys, weights.key_norm)
        value_gradient = self.group.value_gradient[rows].flatten(1)
        gradients = {Target.QUERY: query_gradient, Target.KEY: key_gradient, Target.VALUE: value_gradient}
        found = self._back(gradients, inputs, wanted=self.goes_on)
        # For the layer below.
        self.group.key_gradient[rows] = 0
        self.group.value_gradient[rows] = 0
        return found

    def _attended(self, queries: torch.Tensor) -> torch.Tensor:
        if self._attention_outputs is None:
            self._attention_outputs = self._attend(queries)
        return self._attention_outputs

    def _attend(self, queries: torch.Tensor) -> torch.Tensor:
        keys, values = self.group.keys[self.layer], self.group.values[self.layer]
        found = torch.empty_like(queries)
        for rows, reach in self._slices:
            found[rows] = attend(queries[rows], keys[reach], values[reach])
        return found.flatten(1)

    def _through_attention(self, queries: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Gradient of the queries; those of keys and values are added to the group's."""
        group, layer = self.group, self.layer
        found = torch.empty_like(change)
        for rows, reach in self._slices:
            keys, values = group.keys[layer][reach], group.values[layer][reach]
            sums = group.key_gradient[reach], group.value_gradient[reach]
            found[rows] = attend_backward(change[rows], queries[rows], keys, values, *sums)
        return found

    def _before_rotation(
        self, gradient: torch.Tensor, heads: torch.Tensor, weight: torch.Tensor | None
    ) -> torch.Tensor:
        """[tokens, heads * head_size], of that after it; `heads` are what was normed, where they are."""
        found = self._angles.rotate_back(gradient)
        if weight is not None:
            found = norm_backward(found, heads, weight, self.model.architecture.epsilon)
        return found.flatten(1)

    def _linear(self, target: Target, inputs: torch.Tensor) -> torch.Tensor:
        outputs = self.model.linear(self.layer, target, inputs)
        bypass = self.bypasses.get(target)
        return outputs if bypass is None else bypass.add_to(outputs, inputs)

    def _back(
        self, gradients: Mapping[Target, torch.Tensor], inputs: torch.Tensor | None, *, wanted: bool
    ) -> torch.Tensor | None:
        """Adds to the gradients of the bypasses; gradient of the common inputs in float32, None if it is not wanted.

        `inputs` None: none of the targets has a bypass.
        """
        found = None
        for target, gradient in gradients.items() if wanted else ():
            part = self.model.linear_backward(self.layer, target, gradient)
            found = part if found is None else found.add_(part)
        for target, gradient in gradients.items():
            if inputs is not None and target in self.bypasses:
                self.bypasses[target].backward(gradient, inputs.float(), found)
        return found

    def _goes_to(self, targets: frozenset[Target]) -> bool:
        """Whether anything before needs the gradient: a layer below, or the bypass of one of these."""
        return self.goes_on or not targets.isdisjoint(self.bypasses)

    @cached_property
    def _angles(self) -> Angles:
        return self.group.angles.between(self.begin, self.end)

    @cached_property
    def _slices(self) -> list[tuple[slice, slice]]:
        """Of each stretch, its tokens within the window and what they attend to."""
        stretches = self.group.stretches(self.begin, self.end)
        return [
            (slice(stretch.begin - self.begin, stretch.end - self.begin), slice(stretch.first, stretch.end))
            for stretch in stretches
        ]
