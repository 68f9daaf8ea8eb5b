"""Hooks on the linear layers of the engine's decoder layers, through which the rows of a window ride.

The rows are appended to those of the engine's own tokens and split off again, below the adapters that the engine
serves: these see their own rows alone. What a row of a matrix product comes to does not depend on how many rows there
are: vLLM's packed kernels on a CPU give the same bits (`benchmarks/riding_exact.py`).
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from rowen.runtime.coserve.learner import Linear, Window
from rowen.runtime.vllm.riding.unsuitable import UnsuitableError

if TYPE_CHECKING:
    from torch.nn import Module

_NAME = re.compile(r"(?:^|\.)layers\.(\d+)\.(?:self_attn|mlp)\.(qkv_proj|o_proj|gate_up_proj|down_proj)$")
_ORDER = tuple(Linear)

Apply = Callable[["Module", torch.Tensor, torch.Tensor | None], torch.Tensor]


class Ride:
    """A window on its way through one step. Whatever goes wrong with it, the step's own rows are computed."""

    def __init__(self, window: Window, linears: int) -> None:
        self.window = window
        self.error: Exception | None = None
        """What the window itself ended with."""
        self._linears = linears
        self._first = self._next = window.first_layer * len(_ORDER)
        self._lost = False

    @property
    def is_through(self) -> bool:
        """All linear layers from the window's first one on were passed, each once and in order."""
        return self._next == self._linears and not self._lost

    def carry(
        self, index: int, apply: Apply, layer: "Module", own: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """[rows, outputs] of the layer's own rows, [rows, inputs], which the window's rows go along with."""
        if index < self._first:
            return apply(layer, own, bias)
        if self._lost or index != self._next:
            self._lost = True
            return apply(layer, own, bias)
        place = index // len(_ORDER), _ORDER[index % len(_ORDER)]
        try:
            outputs = apply(layer, self._joined(own, place), bias)
            self.window.leave(*place, outputs[len(own) :])
        except Exception as error:
            self.error, self._lost = error, True
            return apply(layer, own, bias)
        self._next += 1
        return outputs[: len(own)]

    def _joined(self, own: torch.Tensor, place: tuple[int, Linear]) -> torch.Tensor:
        rows = self.window.enter(*place)
        if rows.dtype is not own.dtype:
            raise TypeError(f"rows of {rows.dtype} among those of {own.dtype}")
        return torch.cat((own, rows))


class Hooks:
    """On all linear layers of a model's decoder layers. Where nothing rides they cost a look at one field."""

    def __init__(self, model: "Module", layers: int) -> None:
        """`layers`: how many decoder layers there have to be. Raises `UnsuitableError`."""
        self._ride: Ride | None = None
        self._linears = _linears(model, layers)
        for index, linear in enumerate(self._linears):
            linear.quant_method.apply = self._hooked(index, linear.quant_method.apply)

    def arm(self, window: Window) -> None:
        """The window rides in the next pass through the model."""
        self._ride = Ride(window, len(self._linears))

    def disarm(self) -> Ride | None:
        """What rode in it, if anything did."""
        ride, self._ride = self._ride, None
        return ride

    def remove(self) -> None:
        """The layers are as vLLM made them. Again does nothing."""
        self._ride = None
        for linear in self._linears:
            vars(linear.quant_method).pop("apply", None)

    def _hooked(self, index: int, apply: Apply) -> Apply:
        def hooked(layer: "Module", x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
            ride = self._ride
            return apply(layer, x, bias) if ride is None else ride.carry(index, apply, layer, x, bias)

        return hooked


def _linears(model: "Module", layers: int) -> list[Any]:
    """In the order in which they are passed. Raises `UnsuitableError`."""
    from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod

    found: dict[tuple[int, int], Any] = {}
    for name, module in model.named_modules():
        if match := _NAME.search(name):
            # Around a layer that the engine may serve adapters on, vLLM has another one.
            linear = getattr(module, "base_layer", module)
            if not isinstance(linear, LinearBase) or type(linear.quant_method) is not UnquantizedLinearMethod:
                raise UnsuitableError(f"{name} is no plain linear layer")
            found[int(match[1]), _ORDER.index(Linear(match[2]))] = linear
    wanted = [(layer, place) for layer in range(layers) for place in range(len(_ORDER))]
    if sorted(found) != wanted:
        raise UnsuitableError(f"{type(model).__name__} is not made of the layers that were expected")
    if len({id(linear.quant_method) for linear in found.values()}) < len(found):
        raise UnsuitableError(f"layers of {type(model).__name__} share what computes them")
    return [found[place] for place in wanted]
