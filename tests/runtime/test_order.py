"""Data order is a function of the seed."""

from rowen.runtime.tuning import order


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


def test_every_epoch_sees_every_row_once_in_an_order_of_its_own() -> None:
    rows = list(range(10, 20))
    steps = order.steps_per_epoch(len(rows), 4)
    epochs = [
        [row for step in range(steps) for row in order.batch(rows, 4, epoch * steps + step, 5)] for epoch in (0, 1)
    ]
    assert [sorted(epoch) for epoch in epochs] == [rows, rows]
    assert epochs[0] != epochs[1]


def test_the_order_is_the_same_in_every_release() -> None:
    """A job that is resumed by a later one goes on with the rows that are left."""
    assert order.split(6, 0.3, 5) == ([2, 3, 4, 5], [0, 1])
    assert [order.batch(list(range(6)), 2, step, 5) for step in (0, 2, 3)] == [[5, 4], [3, 0], [5, 2]]
    assert order.batch(list(range(5)), 2, 2, 5) == [0]


def test_steps_of_an_epoch_are_rounded_up() -> None:
    assert [order.steps_per_epoch(rows, 4) for rows in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]


def test_a_held_out_fraction_is_rounded_and_leaves_a_row_on_either_side() -> None:
    assert [len(order.split(10, fraction, 1)[1]) for fraction in (0.0, 0.01, 0.14, 0.16, 1.0)] == [0, 1, 1, 2, 9]
