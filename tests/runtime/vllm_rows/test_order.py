"""The order of rows that wait."""

from hypothesis import given
from hypothesis import strategies as st

from rowen.runtime.vllm.rows.order import together


def test_rows_that_begin_alike_follow_each_other() -> None:
    assert together(["a", "b", "a", "c", "b", "a"]) == [0, 2, 5, 1, 4, 3]


def test_short_rows_stay_where_they_are() -> None:
    assert together([None, "a", None, "a", None]) == [0, 1, 3, 2, 4]


@given(st.lists(st.sampled_from([None, 1, 2, 3])))
def test_the_first_stays_the_first_and_all_are_there(beginnings: list[int | None]) -> None:
    order = together(beginnings)
    assert sorted(order) == list(range(len(beginnings)))
    assert order[:1] == [0][: len(order)]
    # Of one group each comes in its turn.
    for name in (1, 2, 3):
        group = [position for position in order if beginnings[position] == name]
        assert group == sorted(group)
