"""Passes of layers that count only if their weights were in memory all the while."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from typing_extensions import override

from rowen.runtime.tuning.window.schedule import Phase, Position
from rowen.runtime.tuning.window.structure import Structure, take_apart
from rowen.runtime.tuning.window.weights import Weights

Result = TypeVar("Result")

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class PlainLayer(nn.Module):
    """A layer as it is without the window. The layer's own hooks do not run: they run around the window's pass."""

    def __init__(self, layer: nn.Module, unchanged: Sequence[torch.Tensor]) -> None:
        """A pass has to leave the tensors of `unchanged` as they are."""
        super().__init__()
        self.layer = layer
        self._unchanged = unchanged
        self._forward = layer.forward

    @override
    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Raises `ValueError` for a layer that changes its buffers."""
        before = [tensor._version for tensor in self._unchanged]
        output = self._forward(*arguments, **named)
        if [tensor._version for tensor in self._unchanged] != before:
            name = type(self.layer).__name__
            raise ValueError(f"{name} changes its buffers; such a layer cannot be in a window, which repeats passes")
        return output

    def trainable(self) -> dict[str, nn.Parameter]:
        """The parameters that require a gradient, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}


@dataclass(frozen=True)
class Call:
    """A call of a layer, apart from the tensors that it is given."""

    number: int
    """Of the layer."""
    layer: PlainLayer
    structure: Structure
    """Of the arguments."""
    random: torch.Tensor
    """State of torch's random numbers at the beginning."""
    autocast: torch.dtype | None
    tokens: int
    """That the pass works through."""

    @classmethod
    def of(cls, number: int, layer: PlainLayer, arguments: Any) -> tuple["Call", list[torch.Tensor]]:
        """The call, and the tensors among its arguments. Raises `TypeError` for what a repeated pass might change."""
        structure, tensors = take_apart(arguments)
        for constant in structure.constants:
            if not isinstance(constant, _CONSTANTS):
                raise TypeError(
                    f"a layer was given a {type(constant).__name__}, which it may change, and a window repeats passes; "
                    "a model with a key-value cache is to be called with use_cache=False"
                )
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        # The first one is what the layers hand on: a vector for each token.
        tokens = tensors[0][..., 0].numel() if tensors and tensors[0].dim() else 0
        return cls(number, layer, structure, torch.get_rng_state(), autocast, tokens), tensors

    def run(self, tensors: Sequence[torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> Any:
        """The layer's output, with these parameters instead of its own."""
        arguments, named = self.structure.filled(tensors)
        # A cast weight that was cached without a graph would get no gradient.
        with torch.autocast("cpu", dtype=self.autocast, enabled=self.autocast is not None, cache_enabled=False):
            return functional_call(self.layer, dict(parameters), arguments, named)


@dataclass(frozen=True)
class Graph:
    """A pass with a graph: its leaves and its outputs."""

    leaves: list[torch.Tensor]
    outputs: list[torch.Tensor]

    def gradients(self, given: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Gradients of the leaves; keeps the graph."""
        found: list[torch.Tensor | None] = [None] * len(self.leaves)
        wanted = [number for number, leaf in enumerate(self.leaves) if leaf.requires_grad]
        pairs = zip(self.outputs, given, strict=True)
        known = [(output, value) for output, value in pairs if value is not None and output.requires_grad]
        if known:
            outputs, values = zip(*known, strict=True)
            leaves = [self.leaves[number] for number in wanted]
            gradients = torch.autograd.grad(outputs, leaves, values, retain_graph=True, allow_unused=True)
            for number, gradient in zip(wanted, gradients, strict=True):
                found[number] = gradient
        return found


class Pass:
    """A pass of a layer, forward and back. `inputs` are the call's tensors and then the trainable parameters."""

    def __init__(
        self,
        weights: Weights,
        call: Call,
        owned: Callable[[Any], Any],
        before_backward: Callable[[], None],
        *,
        recompute: bool,
    ) -> None:
        """`owned` makes of an output one that does not lie in the window's memory."""
        self.trainable = call.layer.trainable()
        self._output: Structure
        self._weights = weights
        self._call = call
        self._owned = owned
        self._before_backward = before_backward
        self._recompute = recompute
        self._graph: Graph | None = None

    @property
    def tokens(self) -> int:
        """That the pass works through."""
        return self._call.tokens

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The output, with no backward to follow."""
        return self._counting(Phase.EVALUATION, lambda: self._owned(self._call.run(tensors, {})))

    def forward(self, inputs: Sequence[torch.Tensor], needed: Sequence[bool]) -> list[torch.Tensor]:
        """The output's tensors, without a graph."""
        if self._recompute:
            tensors, _ = self._divided(inputs)
            output = self._counting(Phase.FORWARD, lambda: self._owned(self._call.run(tensors, {})))
            self._output, outputs = take_apart(output)
            return outputs
        self._graph = self._counting(Phase.FORWARD, lambda: self._build(inputs, needed))
        return [output.detach() for output in self._graph.outputs]

    def backward(
        self, inputs: Sequence[torch.Tensor], needed: Sequence[bool], gradients: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """Gradients of the inputs that need one."""
        self._before_backward()
        # Where the model's graph is gone back through once more, this one is computed anew.
        kept, self._graph = self._graph, None
        with torch.random.fork_rng(devices=[]):
            return self._counting(Phase.BACKWARD, lambda: (kept or self._build(inputs, needed)).gradients(gradients))

    def output_of(self, tensors: Sequence[torch.Tensor]) -> Any:
        """What the layer returned, with these tensors."""
        return self._output.filled(tensors)

    @torch.no_grad()
    def again(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The output's tensors once more, on the way back."""
        self._weights.counts.recoveries += 1
        with torch.random.fork_rng(devices=[]):
            output = self._counting(Phase.BACKWARD, lambda: self._owned(self._call.run(tensors, {})))
        return take_apart(output)[1]

    def _divided(self, inputs: Sequence[torch.Tensor]) -> tuple[Sequence[torch.Tensor], dict[str, torch.Tensor]]:
        tensors = inputs[: len(inputs) - len(self.trainable)]
        return tensors, dict(zip(self.trainable, inputs[len(tensors) :], strict=True))

    def _build(self, inputs: Sequence[torch.Tensor], needed: Sequence[bool]) -> Graph:
        # Leaves of their own: hooks of the parameters run where the gradients arrive in the end, not here too.
        leaves = [tensor.detach().requires_grad_(need) for tensor, need in zip(inputs, needed, strict=True)]
        with torch.enable_grad():
            self._output, outputs = take_apart(self._owned(self._call.run(*self._divided(leaves))))
        return Graph(leaves, outputs)

    def _counting(self, phase: Phase, work: Callable[[], Result]) -> Result:
        """The result of the work, done again until the layer has stayed in memory throughout."""
        while True:
            ticket = self._weights.enter(Position(phase, self._call.number), self._call.tokens)
            torch.set_rng_state(self._call.random)
            try:
                result = work()
            except Exception:
                # On memory that is gone a layer may fail in any way.
                if self._weights.holds(ticket):
                    raise
            else:
                if self._weights.holds(ticket):
                    return result
            self._weights.counts.repeats += 1


class LayerPass(torch.autograd.Function):
    """A pass as a node of the model's graph."""

    @staticmethod
    @override
    def forward(ctx: Any, layer_pass: Pass, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = layer_pass.forward(inputs, ctx.needs_input_grad[1:])
        ctx.layer_pass = layer_pass
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(*(output for output in outputs if not output.is_floating_point()))
        return tuple(outputs)

    @staticmethod
    @override
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.layer_pass.backward(ctx.saved_tensors, ctx.needs_input_grad[1:], gradients)
