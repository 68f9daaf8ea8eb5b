"""The last norm, the head and the loss of some tokens, there and back."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from rowen.runtime.coserve.training.group import Group
from rowen.runtime.coserve.training.memory import head_tokens
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.norm import norm, norm_backward


@dataclass
class Sums:
    """Of the tokens that were learned so far."""

    loss: float = 0.0
    correct: int = 0


def head(model: Model, group: Group, rows: torch.Tensor, sums: Sums, loss_scale: float | None) -> None:
    """Adds to the sums what tokens `rows` lose.

    With a scale of the loss it puts the gradient in their place in the group's stream. Loss: logsumexp(logits) - logit
    of the label, in float32, summed in float64; its gradient: softmax(logits) - one-hot label.
    """
    few, weight = head_tokens(model.architecture), model.weights.head.to(model.weights.dtype)
    for begin in range(0, len(rows), few):
        _few(model, weight, group, rows[begin : begin + few], sums, loss_scale)


def _few(
    model: Model, weight: torch.Tensor, group: Group, rows: torch.Tensor, sums: Sums, loss_scale: float | None
) -> None:
    weights, epsilon = model.weights, model.architecture.epsilon
    stream, labels = group.stream[rows], group.labels[rows]
    logits = functional.linear(norm(stream, weights.norm, epsilon), weight).float()
    normalizers = torch.logsumexp(logits, -1)
    of_labels = logits.gather(-1, labels[:, None])
    sums.loss += float((normalizers.double() - of_labels[:, 0]).sum())
    sums.correct += int((logits.argmax(-1) == labels).sum())
    if loss_scale is None:
        return
    gradient = logits.sub_(normalizers[:, None]).exp_()
    gradient.scatter_add_(-1, labels[:, None], torch.full_like(of_labels, -1.0))
    gradient.mul_(loss_scale)
    inputs = (gradient.to(weight.dtype) @ weight).float()
    group.stream[rows] = norm_backward(inputs, stream, weights.norm, epsilon)
