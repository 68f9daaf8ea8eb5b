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
