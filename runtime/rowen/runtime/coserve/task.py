"""What a job asks of the engine that it rides in: the loss and the gradients of one micro batch.

The engine is a server of gradients: trainer, optimizer, data and checkpoints stay in the job's pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import torch

IGNORED = -100
"""In place of a label: the position is not learned from."""


class Target(StrEnum):
    """A linear layer that may be adapted, by the name that transformers gives it."""

    QUERY = "q_proj"
    KEY = "k_proj"
    VALUE = "v_proj"
    OUTPUT = "o_proj"
    GATE = "gate_proj"
    UP = "up_proj"
    DOWN = "down_proj"


Place = tuple[int, Target]
"""Layer, counted from 0, and linear layer in it."""


@dataclass(frozen=True)
class Pair:
    """The two matrices of an adapted layer, or their gradients; float32."""

    a: torch.Tensor
    """[rank, inputs]"""
    b: torch.Tensor
    """[outputs, rank]"""


@dataclass(frozen=True)
class Adapter:
    """LoRA weights: y = W x + scaling * B A x."""

    scaling: float
    pairs: Mapping[Place, Pair]


@dataclass(frozen=True)
class Sequence:
    """Tokens that attend to each other, from position 0; int64, of one length."""

    tokens: torch.Tensor
    labels: torch.Tensor
    """What follows each token: `labels[i]` is learned from the tokens up to and with i; `IGNORED`: nothing."""


@dataclass(frozen=True)
class Task:
    """One micro batch."""

    number: int
    """The job's own."""
    adapter: Adapter
    sequences: tuple[Sequence, ...]
    loss_scale: float
    """The gradients are those of `loss_scale` times the sum of all tokens' losses."""
    gradients: bool
    """Else the losses alone are asked for."""

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence. Asked for first by who checks the task, so that the engine's thread need not."""
        return tuple(sequence.tokens.numel() for sequence in self.sequences)


@dataclass(frozen=True)
class Result:
    """The answer to a task."""

    number: int
    loss_sum: float
    """Sum of the learned tokens' losses (negative log likelihood), unscaled."""
    learned_tokens: int
    correct_tokens: int
    """Of the learned ones, those whose label was the likeliest token."""
    gradients: Mapping[Place, Pair]
    """Of every pair of the adapter; empty where none were asked for."""


class TaskUnsuitable(Exception):  # noqa: N818
    """The engine cannot do the task; the message is for people. It says nothing of the job's data."""
