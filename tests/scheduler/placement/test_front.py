"""A search that ends among the first rows finds what a search among all finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.scheduler.placement.fleet.columns import NEVER, best
from rowen.scheduler.placement.fleet.front import Front

ROWS = 600
KEYS = st.integers(-2, 6).map(float)
"""Few, so that many rows are equal."""


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, ROWS - 1), KEYS), max_size=120),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
)
def test_the_first_of_the_front_are_the_first_of_all(
    seed: int, changes: list[tuple[int, float]], refused: float
) -> None:
    """Keys rise and fall while searches refuse a part of the rows."""
    source = np.random.default_rng(seed)
    keys = source.integers(-2, 7, ROWS).astype(float)
    changed: list[int] = []
    front, within = Front(keys, changed), 0
    for row, key in [*changes, (0, 0.0)]:
        takes = source.random(ROWS) >= refused
        rows = front.rows()
        found = rows[best(np.where(takes[rows], keys[rows], NEVER), 2)]
        if len(found) == 2 and front.holds(int(found[-1]), keys[found[-1]]):
            assert found.tolist() == best(np.where(takes, keys, NEVER), 2).tolist()
            within += 1
        else:
            front.renew()
        keys[row] = key
        changed.append(row)
    assert within or refused or not changes


def test_equal_rows_do_not_crowd_into_the_front() -> None:
    front = Front(np.zeros(10_000), [])
    front.renew()
    assert not len(front.rows())
    front.renew()
    assert front.rows().tolist() == list(range(128))
    assert front.holds(127, 0.0)
    assert not front.holds(128, 0.0)


def test_a_front_of_none_holds_nothing() -> None:
    front = Front(np.zeros(0), [])
    front.renew()
    front.renew()
    assert not len(front.rows())
    assert not front.holds(0, 5.0)
