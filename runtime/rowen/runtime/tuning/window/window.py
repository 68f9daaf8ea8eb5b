"""A window over a model's layers: frozen weights are in memory only while they are needed."""

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from rowen.runtime.memory.arena import Arena
from rowen.runtime.memory.ledger import Ledger
from rowen.runtime.tuning.window.handles import Handles
from rowen.runtime.tuning.window.layers import movable_tensors
from rowen.runtime.tuning.window.passes import Call, LayerPass, Pass, PlainLayer
from rowen.runtime.tuning.window.places import find_places
from rowen.runtime.tuning.window.pool import TensorPool
from rowen.runtime.tuning.window.saved_inputs import SavedInputs
from rowen.runtime.tuning.window.weights import Counts, Weights


class Window:
    """Between its making and `close` the layers' frozen weights live in the arena, as many at a time as it grants.

    A layer's pass counts only if its weights stayed in memory throughout; else it is dropped and computed again. With
    less memory than one layer needs, passes wait.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[nn.Module],
        arena: Arena,
        *,
        dtype: torch.dtype | None = None,
        recompute: bool = True,
        prefetch: bool = True,
        input_handles: int = 0,
        ledger: Ledger | None = None,
    ) -> None:
        """`layers` are modules of the model, in the order in which it calls them.

        What requires no gradient now is frozen. Its present storage is what is loaded from: of weights that are mapped
        from a file, that is the file. With a `dtype` the layers compute in it, whatever the storage holds. With
        `recompute` only a layer's inputs are kept for the way back, otherwise all its activations. Inputs are kept in
        up to `input_handles` handles, and in this process's own memory beyond that.

        Raises `ValueError` when the arena's range is too small, or a layer occurs twice.
        """
        if len({id(layer) for layer in layers}) < len(layers):
            raise ValueError("a layer occurs twice in the list of layers")
        movable = movable_tensors(model, layers)
        self._places = find_places(arena, movable, dtype, other_handles=input_handles)
        handles = Handles(arena)
        count = sum(len(place.handles) for place in self._places)
        self._pool = TensorPool(
            arena,
            handles,
            range(count, count + input_handles),
            ledger,
            make_way=lambda more: self._weights.make_way(more, self._pool.held),
        )
        self._weights = Weights(handles, self._places, ledger, prefetch=prefetch, yield_memory=self._pool.vacate)
        self._saved_inputs = SavedInputs(self._pool)
        self._recompute = recompute
        begin = torch.frombuffer(arena.buffer, dtype=torch.uint8).data_ptr()
        self._addresses = range(begin, begin + arena.capacity * arena.handle_bytes)
        self._layers = [
            PlainLayer(layer, [*tensors, *layer.buffers()]) for layer, tensors in zip(layers, movable, strict=True)
        ]
        self._forwards = [(layer, vars(layer).get("forward")) for layer in layers]
        handles.want(count + input_handles)
        for number, layer in enumerate(layers):
            for move in self._places[number].moves:
                move.tensor.data = move.inside
            layer.forward = partial(self._run, number)

    @property
    def counts(self) -> Counts:
        """What happened so far."""
        return self._weights.counts

    @property
    def least_handles(self) -> int:
        """Handles of the largest layer: with less no pass of it ever begins."""
        return max((len(place.handles) for place in self._places), default=0)

    def close(self) -> None:
        """Puts the model back as it was and gives all memory back."""
        for layer, forward in self._forwards:
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward
        for place in self._places:
            for move in place.moves:
                move.tensor.data = move.outside
        self._pool.vacate()
        self._weights.close()

    def __enter__(self) -> "Window":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, number: int, *arguments: Any, **named: Any) -> Any:
        call, tensors = Call.of(number, self._layers[number], (arguments, named))
        layer_pass = Pass(self._weights, call, self._owned, self._saved_inputs.forget, recompute=self._recompute)
        for name, parameter in layer_pass.trainable.items():
            if parameter.data_ptr() in self._addresses:
                raise ValueError(f"{name} was frozen when the window was made, and cannot be trained in it")
        inputs = [*tensors, *layer_pass.trainable.values()]
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in inputs):
            self._saved_inputs.forget()
            return layer_pass.evaluate(tensors)
        outputs = LayerPass.apply(layer_pass, *inputs)  # type: ignore[no-untyped-call]
        if self._recompute:
            self._saved_inputs.keep(layer_pass, tensors, outputs)
        return layer_pass.output_of(outputs)

    def _owned(self, output: Any) -> Any:
        """The output; what lies in the arena of it is copied."""
        return tree_map(self._owned_leaf, output)

    def _owned_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() in self._addresses:
            return leaf.clone()
        return leaf
