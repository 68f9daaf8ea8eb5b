"""Which rows are trained on, and in which order: pure functions of the seed."""

import random
from functools import lru_cache


def split(rows: int, held_out_fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices to train on and indices held out. At least one row is trained on."""
    order = list(range(rows))
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret
    held_out = min(rows - 1, max(1, round(rows * held_out_fraction))) if held_out_fraction > 0 else 0
    return sorted(order[held_out:]), sorted(order[:held_out])


class Order:
    """The sequences of each optimizer step. Each epoch has its own order; its last step may have fewer of them."""

    def __init__(self, sequences: int, batch_size: int, batches_per_step: int, seed: int) -> None:
        self._sequences = sequences
        self._batch_size = batch_size
        self._batches_per_step = batches_per_step
        self._seed = seed
        # A step asks for its epoch, and so does the next one.
        self.epoch = lru_cache(maxsize=1)(self._epoch)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of one pass over the sequences."""
        return -(-self._sequences // self._batch_size)

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one pass over the sequences."""
        return -(-self.batches_per_epoch // self._batches_per_step)

    def step(self, number: int) -> list[list[int]]:
        """The batches of a step, counted from 0 over all epochs; the sequences by their indices."""
        epoch, position = divmod(number, self.steps_per_epoch)
        return self.epoch(epoch)[position * self._batches_per_step : (position + 1) * self._batches_per_step]

    def _epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch, counted from 0."""
        order = list(range(self._sequences))
        random.Random(self._seed * 1_000_003 + number + 1).shuffle(order)  # noqa: S311 - no secret
        return [order[begin : begin + self._batch_size] for begin in range(0, self._sequences, self._batch_size)]
