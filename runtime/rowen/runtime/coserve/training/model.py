"""The served model, as training computes with it."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.architecture import Architecture, read_architecture
from rowen.runtime.coserve.training.norm import norm
from rowen.runtime.coserve.training.rotation import Angles, Rotation
from rowen.runtime.coserve.training.weights import LayerWeights, Weights, map_weights


@dataclass(frozen=True)
class Model:
    """Its shape and its weights."""

    architecture: Architecture
    weights: Weights
    rotation: Rotation

    @classmethod
    def of(cls, folder: Path, dtype: torch.dtype | None = None) -> "Model":
        """The model of a folder. Raises `ArchitectureUnsupported`.

        `dtype`: computed in it; None: in that of its files.
        """
        architecture = read_architecture(folder)
        weights = map_weights(folder, architecture, dtype)
        return cls(architecture, weights, Rotation(architecture, weights.dtype))

    def linear(self, layer: int, target: Target, inputs: torch.Tensor) -> torch.Tensor:
        """[tokens, outputs] of inputs [tokens, inputs], without a bypass."""
        linear = self.weights.layers[layer].linears[target]
        return functional.linear(inputs, linear.weight.to(inputs.dtype), linear.bias)

    def linear_backward(self, layer: int, target: Target, gradient: torch.Tensor) -> torch.Tensor:
        """Gradient of the inputs in float32, of that of the outputs; computed in the model's type."""
        weight = self.weights.layers[layer].linears[target].weight.to(self.weights.dtype)
        return (gradient.to(weight.dtype) @ weight).float()

    @property
    def copy_bytes(self) -> int:
        """Largest matrix in the type that is computed in, where it is stored in another one."""
        dtype, first = self.weights.dtype, self.weights.layers[0].linears.values()
        matrices = [self.weights.head, *(linear.weight for linear in first)]
        return max(0 if matrix.dtype == dtype else matrix.numel() * dtype.itemsize for matrix in matrices)

    def layer(self, number: int) -> LayerWeights:
        """Weights of a layer."""
        return self.weights.layers[number]

    def rotated_queries(self, layer: int, heads: torch.Tensor, angles: Angles) -> torch.Tensor:
        """[tokens, heads, head_size] as attention takes them, of what the linear layer made."""
        return angles.rotate(self._normed(heads, self.layer(layer).query_norm))

    def rotated_keys(self, layer: int, heads: torch.Tensor, angles: Angles) -> torch.Tensor:
        """The same of keys [tokens, key_heads, head_size]."""
        return angles.rotate(self._normed(heads, self.layer(layer).key_norm))

    def _normed(self, heads: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return heads if weight is None else norm(heads, weight, self.architecture.epsilon)
