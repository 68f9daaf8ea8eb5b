"""Which rows are trained on, and in which order: pure functions of the seed."""

import random


def split(rows: int, held_out_fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices to train on and indices held out. At least one row is trained on."""
    order = list(range(rows))
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret
    held_out = min(rows - 1, max(1, round(rows * held_out_fraction))) if held_out_fraction > 0 else 0
    return sorted(order[held_out:]), sorted(order[:held_out])


def steps_per_epoch(rows: int, batch_size: int) -> int:
    """Optimizer steps of one pass; the last batch may be smaller."""
    return -(-rows // batch_size)


def batch(rows: list[int], batch_size: int, step: int, seed: int) -> list[int]:
    """The rows of a step, counted from 0 over all epochs. Each epoch has its own order."""
    epoch, position = divmod(step, steps_per_epoch(len(rows), batch_size))
    order = list(rows)
    random.Random(seed * 1_000_003 + epoch + 1).shuffle(order)  # noqa: S311 - no secret
    return order[position * batch_size : (position + 1) * batch_size]
