"""Figures are written in turn: one object's not too often, and all together no more than the API server bears."""

import pytest

from rowen.operator.turns import Turns
from rowen.operator.world.store import Key


def key(number: int) -> Key:
    return Key("OfflineJob", "team", f"job-{number}")


def test_what_was_never_written_is_written_at_once() -> None:
    assert Turns().wait_seconds(key(0), 1e9) <= 0.0


@pytest.mark.parametrize(("objects", "period"), [(1, 10.0), (250, 10.0), (500, 20.0), (1000, 40.0)])
def test_the_more_objects_the_longer_each_waits(objects: int, period: float) -> None:
    turns = Turns()
    for number in range(objects):
        turns.wrote(key(number), 100.0)
    assert turns.period_seconds() == period
    assert turns.wait_seconds(key(0), 103.0) == period - 3.0
    assert turns.wait_seconds(key(0), 100.0 + period) == 0.0


def test_what_has_ended_takes_no_turn() -> None:
    turns = Turns()
    for number in range(1000):
        turns.wrote(key(number), 100.0)
    for number in range(750):
        turns.ended(key(number))
    turns.ended(key(0))
    assert turns.period_seconds() == 10.0
    assert turns.wait_seconds(key(999), 101.0) == 9.0
