"""A search that ends among the first rows finds what a search among all finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.scheduler.placement.fleet.columns import NEVER, best
from rowen.scheduler.placement.fleet.front import Front

ROWS = 600
KEYS = st.integers(-2, 6).map(float) | st.just(NEVER)
"""Few, so that many rows are equal; some are no place."""


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, ROWS - 1), KEYS), max_size=120),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 0.5, 0.85, 1.0]),
)
def test_the_first_of_the_front_are_the_first_of_all(
    seed: int, changes: list[tuple[int, float]], refused: float, shut: float
) -> None:
    """Keys rise and fall while searches refuse a part of the rows."""
    source = np.random.default_rng(seed)
    keys = np.where(source.random(ROWS) < shut, NEVER, source.integers(-2, 7, ROWS).astype(float))
    changed: list[int] = []
    front, within = Front(keys.__getitem__, changed), 0
    for row, key in [*changes, (0, 0.0)]:
        takes = source.random(ROWS) >= refused
        rows = front.rows()
        found = rows[best(np.where(takes[rows], keys[rows], NEVER), 2)]
        if front.whole or (len(found) == 2 and front.holds(int(found[-1]), keys[found[-1]])):
            assert found.tolist() == best(np.where(takes, keys, NEVER), 2).tolist()
            within += 1
        else:
            front.renew()
        keys[row] = key
        changed.append(row)
    assert within or refused or len(changes) < 2


def test_a_front_of_all_that_are_places_ends_a_search_that_finds_none() -> None:
    keys, changed = np.where(np.arange(1000) < 127, 1.0, NEVER), [0]
    front = Front(keys.__getitem__, changed)
    front.renew()
    assert not front.whole
    front.renew()
    assert front.whole
    assert front.rows().tolist() == list(range(127))
    keys[500] = -5.0
    changed.append(500)
    assert front.rows().tolist() == [*range(127), 500]
    keys[600] = NEVER
    changed.append(600)
    assert front.rows().tolist() == [*range(127), 500]


def test_of_rows_that_change_those_come_into_the_front_that_reach_its_floor() -> None:
    keys, changed = np.zeros(1000), [0]
    front = Front(keys.__getitem__, changed)
    front.renew()
    front.renew()
    for row, key in ((300, -1.0), (400, 0.0), (500, 1.0)):
        keys[row] = key
        changed.append(row)
    assert front.rows().tolist() == [*range(128), 400, 500]


def test_equal_rows_do_not_crowd_into_the_front() -> None:
    front = Front(np.zeros(10_000).__getitem__, [])
    front.renew()
    assert not len(front.rows())
    front.renew()
    assert front.rows().tolist() == list(range(128))
    assert front.holds(127, 0.0)
    assert not front.holds(128, 0.0)


def test_a_front_ends_with_the_key_and_the_number_of_its_last_row() -> None:
    front = Front((-np.arange(1000.0)).__getitem__, [])
    front.renew()
    front.renew()
    assert front.rows().tolist() == list(range(128))
    assert front.holds(500, -126.5)
    assert front.holds(127, -127.0)
    assert not front.holds(128, -127.0)
    assert not front.holds(5, -127.5)


def test_a_front_begins_anew_when_less_than_half_of_it_is_left() -> None:
    keys, changed = np.zeros(1000), [0]
    front = Front(keys.__getitem__, changed)
    front.renew()
    front.renew()
    keys[:64] = -1.0
    front.renew()
    assert front.rows().tolist() == list(range(128))
    keys[64] = -1.0
    front.renew()
    assert front.rows().tolist() == list(range(65, 193))


def test_a_front_begins_anew_when_it_has_grown_to_more_than_twice_its_size() -> None:
    keys, changed = np.zeros(1000), [0]
    front = Front(keys.__getitem__, changed)
    front.renew()
    front.renew()
    changed += range(128, 256)
    assert len(front.rows()) == 256
    front.renew()
    assert len(front.rows()) == 256
    changed.append(256)
    assert len(front.rows()) == 257
    front.renew()
    assert front.rows().tolist() == list(range(128))


def test_a_front_of_none_is_whole() -> None:
    front = Front(np.zeros(0).__getitem__, [])
    front.renew()
    front.renew()
    assert not len(front.rows())
    assert front.whole
