"""Which slabs are mapped and given back."""

from collections.abc import Sequence

import pytest

from rowen.runtime.vllm.elastic.geometry import Geometry
from rowen.runtime.vllm.elastic.slabs import Slabs, give_back

TWO_BLOCKS = Geometry(handle_bytes=2, handles=5, block_bytes=1)
"""Slab 0 has block 1 only, slab 1 blocks 2 and 3, and so on."""
TWO_HANDLES = Geometry(handle_bytes=1, handles=10, block_bytes=2)
EIGHT_HANDLES = Geometry(handle_bytes=1, handles=48, block_bytes=8)


@pytest.mark.parametrize(
    ("handles", "slab_handles", "idle", "used", "expected"),
    [
        (2, 1, [7, 3, 5], {1: 1}, [7, 3]),
        (3, 1, [7, 3, 5], {1: 1}, [7, 3, 5]),
        # Those in use follow, the least used first, the lowest among equals.
        (5, 1, [7], {1: 4, 2: 2, 0: 2, 4: 9}, [7, 0, 2, 1, 4]),
        (4, 1, [7], {1: 4, 2: 2, 0: 2, 4: 9}, [7, 0, 2, 1]),
        # Whole slabs only, and no more than there are.
        (3, 2, [7, 3, 5], {}, [7, 3]),
        (4, 2, [7, 3, 5], {}, [7, 3]),
        (9, 2, [7, 3], {1: 1}, [7, 3, 1]),
        (0, 1, [7], {1: 1}, []),
        (-3, 1, [7], {1: 1}, []),
    ],
)
def test_idle_slabs_go_first(
    handles: int, slab_handles: int, idle: Sequence[int], used: dict[int, int], expected: list[int]
) -> None:
    assert give_back(handles, slab_handles, idle, used) == expected


def slabs(geometry: Geometry = TWO_BLOCKS, content: Sequence[int] = ()) -> Slabs:
    """With every slab open."""
    made = Slabs(geometry, lambda slab: slab in content)
    while (slab := made.take_out(geometry.handles)) is not None:
        made.open(slab)
    return made


def test_a_slab_of_the_null_block_alone_never_gets_memory() -> None:
    assert Slabs(TWO_HANDLES, lambda _: False).take_out(2) == 1
    assert Slabs(TWO_BLOCKS, lambda _: False).take_out(1) == 0


def test_the_one_that_lacks_the_fewest_gets_memory_first_then_the_lowest() -> None:
    made = slabs(EIGHT_HANDLES)
    assert made.take_out(48) is None
    for slab, missing in ((4, 8), (1, 8), (2, 3), (5, 1), (3, 3)):
        made.put_out(slab, missing)
    assert [made.take_out(8) for _ in range(6)] == [5, 2, 3, 1, 4, None]


def test_a_slab_gets_memory_only_if_it_becomes_whole() -> None:
    made = slabs(EIGHT_HANDLES)
    made.put_out(1, 8)
    assert (made.take_out(7), made.take_out(8)) == (None, 1)
    made.put_out(1, 8)
    made.put_out(2, 3)
    # Another would take more still.
    assert (made.take_out(2), made.take_out(3)) == (None, 2)


def test_of_the_partial_ones_that_with_the_fewest_handles_is_given_back_first() -> None:
    made = slabs(EIGHT_HANDLES)
    for slab, missing in ((1, 3), (2, 7), (3, 1), (4, 8)):
        made.put_out(slab, missing)
    assert [made.take_scattered() for _ in range(3)] == [2, 1, None]
    assert [made.take_partial() for _ in range(2)] == [3, None]


def test_a_partial_slab_may_lose_more() -> None:
    made = slabs(EIGHT_HANDLES)
    made.put_out(1, 1)
    made.put_out(2, 2)
    made.put_out(1, 3)
    assert made.take_out(8) == 2
    made.put_out(1, 8)
    assert not made.is_partial(1)
    assert (made.take_out(8), made.take_out(8)) == (1, None)


def test_use_is_counted_in_blocks_and_slabs() -> None:
    made = slabs()
    for block in (2, 3, 5):
        made.acquire(block)
    assert (made.used_blocks, made.used_slabs) == (3, 2)
    made.release(3)
    assert (made.used_blocks, made.used_slabs) == (2, 2)
    made.release(2)
    assert (made.used_blocks, made.used_slabs) == (1, 1)


@pytest.mark.parametrize(
    ("used", "more", "expected"),
    [
        ([], 0, 0),
        # Slab 0 has room for one.
        ([], 1, 1),
        ([], 2, 2),
        ([], 3, 2),
        ([1], 1, 1),
        ([1], 2, 1),
        ([2], 1, 0),
        ([2], 2, 1),
        ([2], 3, 2),
        ([1, 2], 1, 0),
        ([1, 2], 2, 1),
    ],
)
def test_the_null_block_takes_the_place_of_another(used: Sequence[int], more: int, expected: int) -> None:
    made = slabs()
    for block in used:
        made.acquire(block)
    assert made.more_for(more) == expected


def test_a_slab_of_one_block_has_room_for_one() -> None:
    made = slabs(TWO_HANDLES)
    made.acquire(1)
    assert [made.more_for(more) for more in range(3)] == [0, 1, 2]


def test_the_least_recently_used_without_content_is_given_back_first() -> None:
    made = slabs(content=[2, 4])
    for block in (4, 8, 6, 2, 1):  # slabs 2, 4, 3, 1, 0
        made.acquire(block)
    for block in (6, 8, 4, 1):
        made.release(block)
    # Slab 1 is in use; 3 and 0 hold nothing; 4 was used before 2.
    assert made.surplus(1) == [3]
    assert made.surplus(2) == [3, 0]
    assert made.surplus(3) == [3, 0, 4]
    assert made.surplus(5) == [3, 0, 4, 2, 1]
    assert made.surplus(6) == [3, 0, 4, 2, 1]
    assert made.surplus(0) == []
    made.acquire(6)
    assert made.surplus(1) == [0]


def test_the_least_used_is_given_back_last_of_all() -> None:
    made = slabs()
    for block in (1, 2, 3, 4, 5, 6, 8, 9):  # slab 0 and 3 have one in use, the others two
        made.acquire(block)
    assert made.surplus(3) == [0, 3, 1]


def test_handles_are_given_back_in_whole_slabs() -> None:
    made = slabs(TWO_HANDLES)
    made.acquire(1)
    assert made.surplus(3) == [2, 3]
    assert made.surplus(6) == [2, 3, 4]
    assert made.surplus(7) == [2, 3, 4, 1]


def test_a_draining_slab_waits_for_its_blocks() -> None:
    made = slabs()
    made.acquire(2)
    made.drain(1)
    assert (made.is_open(1), made.is_in(1), made.take_drained()) == (False, True, None)
    made.release(2)
    assert 1 not in made.surplus(5)
    assert (made.take_drained(), made.take_drained()) == (1, None)
    assert not made.is_in(1)


def test_a_draining_slab_may_be_opened_again() -> None:
    made = slabs()
    made.acquire(2)
    made.drain(1)
    made.open(1)
    assert (made.is_open(1), made.draining) == (True, set())
    made.release(2)
    # It rests as any other, last used.
    assert made.surplus(5) == [0, 2, 3, 4, 1]


def test_a_slab_that_lost_memory_is_out() -> None:
    made = slabs()
    made.drain(2)
    made.put_out(2, 1)
    made.put_out(3, 1)
    assert not made.is_in(2)
    assert (made.is_open(3), made.draining) == (False, set())
    assert made.surplus(5) == [0, 1, 4]
    assert made.take_out(1) == 2
