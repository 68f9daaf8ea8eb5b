"""TRL's trainer on losses and gradients that an engine computes."""

from collections.abc import Sequence
from typing import Any

import torch
from typing_extensions import override

from rowen.runtime.coserve.task import Result
from rowen.runtime.tuning.riding.batches import learned_tokens, sequences_of
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter
from rowen.runtime.tuning.training.trainer import Trainer


class RidingTrainer(Trainer):
    """Learns on a stand-in's adapter what the engine says."""

    def __init__(self, *arguments: Any, ride: Ride, adapter: RidingAdapter, **named: Any) -> None:
        """As `Trainer`, whose model is the stand-in with that adapter."""
        super().__init__(*arguments, **named)
        self._ride = ride
        self._adapter = adapter

    @override
    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        sequences = sequences_of(inputs)
        counted = learned_tokens(sequences) if num_items_in_batch is None else int(num_items_in_batch)
        scale = 1 / max(1, counted)
        result = self._ride.gradients(sequences, scale)
        self._note(result, sum(len(sequence.tokens) for sequence in sequences))
        loss = result.loss_sum * scale
        gradients = [matrix for pair in result.gradients.values() for matrix in (pair.a, pair.b)]
        return _Given.apply(loss, gradients, *self._adapter.weights)  # type: ignore[no-untyped-call,no-any-return]

    @override
    def held_out_loss(self) -> float:
        return self._mean_loss(adapted=True)

    @override
    def base_loss(self) -> float:
        return self._mean_loss(adapted=False)

    def _mean_loss(self, *, adapted: bool) -> float:
        total, learned = 0.0, 0
        for inputs in self.get_eval_dataloader():
            result = self._ride.losses(sequences_of(inputs), adapted=adapted)
            total += result.loss_sum
            learned += result.learned_tokens
        return total / learned

    def _note(self, result: Result, tokens: int) -> None:
        """What TRL logs of a batch and the engine says."""
        self._total_train_tokens += tokens
        metrics = self._metrics["train"]
        metrics["mean_token_accuracy"].append(result.correct_tokens / max(1, result.learned_tokens))
        metrics["num_tokens"] = [self._total_train_tokens]


class _Given(torch.autograd.Function):
    """A loss whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, loss: float, gradients: Sequence[torch.Tensor], *_weights: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return torch.tensor(loss)

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        # New tensors: those of the ride are written again.
        return None, None, *(gradient * outer[0] for gradient in ctx.gradients)
