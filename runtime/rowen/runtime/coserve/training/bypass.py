"""The low-rank matrices beside the linear layers (LoRA; arXiv 2106.09685): y = W x + scaling * B A x."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rowen.runtime.coserve.task import Pair, Target


@dataclass
class Bypass:
    """One pair, and the sums of its gradients."""

    pair: Pair
    scaling: float
    gradients: Pair | None = None
    """float32, added to; None until the way back needs them."""

    def add_to(self, outputs: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs [tokens, outputs] with the pair's part of inputs [tokens, inputs] in them; computed in float32."""
        low = inputs.float() @ self.pair.a.t()
        return torch.addmm(outputs.float(), low, self.pair.b.t(), alpha=self.scaling).to(outputs.dtype)

    def backward(self, gradient: torch.Tensor, inputs: torch.Tensor, input_gradient: torch.Tensor | None) -> None:
        """Adds to the pair's gradients, and to that of the inputs [tokens, inputs] where it is wanted.

        `gradient` is that of the outputs, [tokens, outputs]; all are float32.
        """
        if self.gradients is None:
            return
        low = inputs @ self.pair.a.t()
        self.gradients.b.addmm_(gradient.t(), low, alpha=self.scaling)
        low_gradient = (gradient @ self.pair.b).mul_(self.scaling)
        self.gradients.a.addmm_(low_gradient.t(), inputs)
        if input_gradient is not None:
            input_gradient.addmm_(low_gradient, self.pair.a)


Bypasses = Mapping[Target, Bypass]
"""Of one layer."""


def no_gradients(pair: Pair) -> Pair:
    """Zeros in the shapes of the pair's matrices."""
    # Whoever gets them need not be in the mode that an engine runs in.
    with torch.inference_mode(mode=False):
        return Pair(torch.zeros_like(pair.a), torch.zeros_like(pair.b))


def never_gradients(pair: Pair) -> Pair:
    """The same, to be read alone: they take neither memory nor time, however large the pair is."""
    with torch.inference_mode(mode=False):
        zero = torch.zeros(())
        return Pair(zero.expand_as(pair.a), zero.expand_as(pair.b))
