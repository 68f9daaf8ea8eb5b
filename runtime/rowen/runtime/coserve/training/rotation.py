"""Rotary position embedding (RoFormer; arXiv 2104.09864), the halves of a head paired as transformers does."""

import torch

from rowen.runtime.coserve.training.architecture import Architecture


class Rotation:
    """Sines and cosines of the positions that have been needed so far."""

    def __init__(self, architecture: Architecture, dtype: torch.dtype) -> None:
        self._frequencies = architecture.frequencies
        self._scale = architecture.rotation_scale
        self._dtype = dtype

    def at(self, positions: torch.Tensor) -> "Angles":
        """Of positions [tokens]."""
        angles = positions[:, None].float() * self._frequencies
        # As in transformers: rounded to the model's type.
        cosines = (angles.cos() * self._scale).to(self._dtype)
        sines = (angles.sin() * self._scale).to(self._dtype)
        return Angles(cosines[:, None], sines[:, None])


class Angles:
    """Of some tokens."""

    def __init__(self, cosines: torch.Tensor, sines: torch.Tensor) -> None:
        """Both [tokens, 1, head_size / 2]."""
        self._cosines = cosines
        self._sines = sines

    def between(self, begin: int, end: int) -> "Angles":
        """Of a stretch of the tokens."""
        return Angles(self._cosines[begin:end], self._sines[begin:end])

    def rotate(self, heads: torch.Tensor) -> torch.Tensor:
        """Heads [tokens, heads, head_size], rotated."""
        first, second = heads.chunk(2, -1)
        return torch.cat(
            (first * self._cosines - second * self._sines, second * self._cosines + first * self._sines), -1
        )

    def rotate_back(self, heads: torch.Tensor) -> torch.Tensor:
        """The gradient before the rotation, of that after it: the transposed rotation; of the type of `heads`."""
        first, second = heads.chunk(2, -1)
        cosines, sines = self._cosines.to(heads.dtype), self._sines.to(heads.dtype)
        return torch.cat((first * cosines + second * sines, second * cosines - first * sines), -1)
