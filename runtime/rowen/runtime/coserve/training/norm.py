"""Root mean square norms, as transformers computes them: in float32, then in the model's type."""

import torch


def norm(inputs: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The norm of x: weight * x / sqrt(mean(x^2) + epsilon) over the last dimension; in the type of `weight`."""
    values = inputs.float()
    return (values * _inverse(values, epsilon)).to(weight.dtype).mul_(weight)


def norm_backward(gradient: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Gradient of the inputs in float32, of that of the outputs.

    With r = 1 / sqrt(mean(x^2) + epsilon) and g = weight * gradient: r g - r^3 x mean(g x).
    """
    values = inputs.float()
    inverse = _inverse(values, epsilon)
    normed = values * inverse
    scaled = gradient.float() * weight
    along = (scaled * normed).mean(-1, keepdim=True)
    return scaled.sub_(normed.mul_(along)).mul_(inverse)


def _inverse(values: torch.Tensor, epsilon: float) -> torch.Tensor:
    return torch.rsqrt(values.square().mean(-1, keepdim=True).add_(epsilon))
