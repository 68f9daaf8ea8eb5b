"""A window that rides."""

from collections.abc import Callable

import torch
from typing_extensions import override

from rowen.runtime.coserve.learner import Linear, Window
from rowen.runtime.coserve.training.forward import Forward


class RidingWindow(Window):
    """Tells how it ended: with its tokens through, or given up."""

    def __init__(self, forward: Forward, ended: Callable[[bool], None]) -> None:
        self._forward = forward
        self._ended = ended
        layers = forward.model.architecture.layers
        left = layers - forward.first_layer
        self.first_layer = forward.first_layer
        self.tokens = forward.end - forward.begin
        self.whole_tokens = -(-self.tokens * left // layers)
        self.context = forward.context * self.whole_tokens // self.tokens

    @override
    def enter(self, layer: int, linear: Linear) -> torch.Tensor:
        with torch.inference_mode():
            return self._forward.enter(layer, linear)

    @override
    def leave(self, layer: int, linear: Linear, outputs: torch.Tensor) -> None:
        with torch.inference_mode():
            self._forward.leave(layer, linear, outputs)

    @override
    def finish(self) -> None:
        with torch.inference_mode():
            self._forward.finish()
        self._ended(True)

    @override
    def abandon(self) -> None:
        # What it left in the caches lies behind what counts, and is written over.
        self._ended(False)
