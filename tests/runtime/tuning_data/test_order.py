"""Data order is a function of the seed."""

import pytest

from rowen.runtime.tuning.data import order
from rowen.runtime.tuning.data.order import Order


def test_split_is_seeded_and_complete() -> None:
    train, held_out = order.split(20, 0.25, 1)
    assert (len(train), len(held_out)) == (15, 5)
    assert sorted(train + held_out) == list(range(20))
    assert order.split(20, 0.25, 1) == (train, held_out)
    assert order.split(20, 0.25, 2)[1] != held_out


def test_split_leaves_something_to_train_on() -> None:
    assert order.split(1, 0.5, 0) == ([0], [])
    assert order.split(3, 0.0, 0) == ([0, 1, 2], [])
    assert len(order.split(3, 0.01, 0)[1]) == 1


def test_every_epoch_sees_every_sequence_once_in_an_order_of_its_own() -> None:
    found = Order(sequences=10, batch_size=4, batches_per_step=1, seed=5)
    epochs = [[index for batch in found.epoch(epoch) for index in batch] for epoch in (0, 1)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]


def test_the_order_is_the_same_in_every_release() -> None:
    """A job that is resumed by a later one goes on with the rows that are left."""
    assert order.split(6, 0.3, 5) == ([2, 3, 4, 5], [0, 1])
    assert [Order(6, 2, 1, 5).step(step) for step in (0, 2, 3)] == [[[5, 4]], [[3, 0]], [[5, 2]]]
    assert Order(5, 2, 1, 5).step(2) == [[0]]


@pytest.mark.parametrize("batches_per_step", [1, 2, 3, 7])
def test_the_steps_of_an_epoch_are_its_batches_in_their_order(batches_per_step: int) -> None:
    found = Order(11, 2, batches_per_step, 5)
    for epoch in (0, 1):
        steps = range(epoch * found.steps_per_epoch, (epoch + 1) * found.steps_per_epoch)
        assert [batch for step in steps for batch in found.step(step)] == found.epoch(epoch)
        assert all(0 < len(found.step(step)) <= batches_per_step for step in steps)


def test_batches_and_steps_of_an_epoch_are_rounded_up() -> None:
    assert [Order(rows, 4, 1, 0).steps_per_epoch for rows in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]
    assert [Order(rows, 4, 2, 0).steps_per_epoch for rows in (1, 4, 5, 8, 9)] == [1, 1, 1, 1, 2]
    assert [len(Order(rows, 4, 2, 0).epoch(0)) for rows in (1, 5, 9)] == [1, 2, 3]


def test_a_held_out_fraction_is_rounded_and_leaves_a_row_on_either_side() -> None:
    assert [len(order.split(10, fraction, 1)[1]) for fraction in (0.0, 0.01, 0.14, 0.16, 1.0)] == [0, 1, 1, 2, 9]
