import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.runtime.coserve.planning.search import most_tokens


def test_nothing_waits() -> None:
    assert most_tokens(lambda _: 0.0, 1.0, 0) == 0
    assert most_tokens(lambda _: 0.0, 1.0, -3) == 0


def test_all_fits() -> None:
    assert most_tokens(lambda tokens: 0.01 * tokens, 1.0, 100) == 100


@pytest.mark.parametrize(
    ("bound", "most", "found"),
    [(0.5, 4, 0), (1.0, 4, 1), (2.0, 4, 2), (3.0, 4, 3), (37.0, 300, 37), (99.9, 300, 99), (700.5, 2000, 700)],
)
def test_a_straight_line_is_met(bound: float, most: int, found: int) -> None:
    assert most_tokens(float, bound, most) == found


def test_where_the_line_says_too_many_a_shorter_one_is_tried() -> None:
    assert most_tokens(math.sqrt, 9.2, 2000) == 84
    # A step in between is not found so soon: the size below is what is known to fit.
    assert most_tokens(lambda tokens: 1.0 if tokens <= 64 else 9.0, 5.0, 96) == 64


def test_nothing_fits() -> None:
    assert most_tokens(lambda _: 2.0, 1.0, 100) == 0


@given(
    st.lists(st.tuples(st.integers(1, 400), st.floats(0, 0.01)), min_size=1, max_size=4),
    st.integers(1, 2000),
    st.floats(0.001, 5),
)
def test_what_is_found_fits_between_the_sizes_asked(bends: list[tuple[int, float]], most: int, bound: float) -> None:
    def seconds(tokens: int) -> float:
        asked.add(tokens)
        return sum(slope * max(0, tokens - knot) for knot, slope in bends)

    asked: set[int] = set()
    found = most_tokens(seconds, bound, most)
    assert len(asked) <= 8
    assert found >= max((size for size in asked if seconds(size) <= bound), default=0)
    # Bent upwards, so that a straight line between two sizes lies above: what is found fits.
    assert seconds(found) <= bound + 1e-9
