"""Layers' inputs that are kept in the arena until their backward pass, and computed again if they are lost."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from rowen.runtime.tuning.window.buddy import parts
from rowen.runtime.tuning.window.passes import Pass
from rowen.runtime.tuning.window.pool import Stored, TensorPool


def most_handles(layers: int, input_bytes: int, handle_bytes: int) -> int:
    """Handles that inputs of so many bytes take: all but the first layer's, which comes from no layer."""
    return -(-(layers - 1) * sum(parts(input_bytes, handle_bytes)) // handle_bytes)


@dataclass(eq=False)
class _Origin:
    """The pass that an input is an output of, and what that pass was given."""

    layer_pass: Pass
    tensors: "list[torch.Tensor | SavedInput]"

    @property
    def before(self) -> "SavedInput | None":
        """What of it may be lost itself."""
        return next((tensor for tensor in self.tensors if isinstance(tensor, SavedInput)), None)

    def compute(self, before: torch.Tensor | None) -> list[torch.Tensor]:
        """The outputs once more."""
        tensors = [before if isinstance(tensor, SavedInput) else tensor for tensor in self.tensors]
        return self.layer_pass.again([tensor for tensor in tensors if tensor is not None])


@dataclass(eq=False)
class SavedInput:
    """A tensor in the pool."""

    pool: TensorPool
    stored: Stored
    origin: _Origin
    output: int
    """Number of the tensor among the origin's outputs."""

    def restore(self) -> torch.Tensor:
        """The tensor; computed from the nearest one before it that is there, where it was lost."""
        lost: list[SavedInput] = []
        saved: SavedInput | None = self
        tensor = None
        while saved is not None and tensor is None:
            tensor = self.pool.load(saved.stored)
            if tensor is None:
                lost.append(saved)
                saved = saved.origin.before
        for saved in reversed(lost):
            tensor = saved.recompute(tensor)
        return cast("torch.Tensor", tensor)

    def recompute(self, before: torch.Tensor | None) -> torch.Tensor:
        """The tensor, from what may have been lost of its own origin's input; it stays outside of the pool."""
        self.stored.outside = self.origin.compute(before)[self.output]
        return self.stored.outside


@dataclass(frozen=True)
class _Last:
    origin: _Origin
    outputs: list[tuple["weakref.ref[torch.Tensor]", int]]
    """With their versions: a tensor that was changed since is no output of the pass any more."""


class SavedInputs:
    """Moves into the pool what layers are given, as far as it comes straight from the layer before."""

    def __init__(self, pool: TensorPool) -> None:
        self._pool = pool
        self._last: _Last | None = None

    def keep(self, layer_pass: Pass, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Called after each pass with a backward pass to follow."""
        kept: list[torch.Tensor | SavedInput] = list(tensors)
        node = next((output.grad_fn for output in outputs if output.grad_fn is not None), None)
        found = self._find(tensors)
        stored = None if node is None or found is None else self._pool.store(tensors[found[0]], layer_pass.tokens)
        if self._last is not None and found is not None and stored is not None:
            place, output = found
            kept[place] = saved = SavedInput(self._pool, stored, self._last.origin, output)
            node._raw_saved_tensors[place].register_hooks(lambda _: saved, SavedInput.restore)  # type: ignore[union-attr]
        self._last = _Last(_Origin(layer_pass, kept), [(weakref.ref(output), output._version) for output in outputs])

    def forget(self) -> None:
        """Called when no layer follows."""
        self._last = None

    def _find(self, tensors: Sequence[torch.Tensor]) -> tuple[int, int] | None:
        """Which of these tensors is which of the outputs of the layer before."""
        for output, (reference, version) in enumerate(self._last.outputs if self._last else ()):
            for place, tensor in enumerate(tensors):
                if tensor is reference() and tensor._version == version:
                    return place, output
        return None
