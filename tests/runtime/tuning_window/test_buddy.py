"""Blocks inside handles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.runtime.tuning.window.buddy import GRANULE_BYTES, Block, Buddy, parts

HANDLE = 16 * GRANULE_BYTES
SIZES = [GRANULE_BYTES << order for order in range(5)]
ACTIONS = st.lists(st.tuples(st.sampled_from([*SIZES, 0]), st.integers(0, 30)), max_size=60)


def overlap(one: Block, other: Block) -> bool:
    begins = max(one.offset_bytes, other.offset_bytes)
    ends = min(one.offset_bytes + one.size_bytes, other.offset_bytes + other.size_bytes)
    return one.handle == other.handle and begins < ends


def possible(size: int, handles: list[int]) -> list[Block]:
    return [Block(handle, offset, size) for handle in handles for offset in range(0, HANDLE, size)]


@given(ACTIONS)
def test_blocks_never_overlap_and_come_while_there_is_room(actions: list[tuple[int, int]]) -> None:
    buddy, used = Buddy(HANDLE), []
    buddy.add(3)
    buddy.add(7)
    for size, index in actions:
        if size:
            block = buddy.allocate(size)
            room = [b for b in possible(size, [3, 7]) if not any(overlap(b, other) for other in used)]
            assert (block in room) if room else (block is None)
            used += [block] if block else []
        elif used:
            buddy.release(used.pop(index % len(used)))
    for block in used:
        buddy.release(block)
    assert buddy.empty_handles() == [3, 7]
    assert buddy.allocate(HANDLE) == Block(3, 0, HANDLE)


@given(st.integers(1, 5 * HANDLE))
def test_parts_hold_the_bytes_with_less_than_a_granule_to_spare(size: int) -> None:
    found = parts(size, HANDLE)
    assert 0 <= sum(found) - size < GRANULE_BYTES
    assert set(found) <= set(SIZES)
    assert found == sorted(found, reverse=True)
    assert len(found) <= size // HANDLE + len(SIZES)


def test_nothing_has_no_parts() -> None:
    assert parts(0, HANDLE) == []


def test_the_smallest_free_block_is_split() -> None:
    buddy = Buddy(HANDLE)
    buddy.add(0)
    first = buddy.allocate(HANDLE // 4)
    assert first == Block(0, 0, HANDLE // 4)
    buddy.add(1)
    assert buddy.allocate(GRANULE_BYTES) == Block(0, HANDLE // 4, GRANULE_BYTES)
    assert buddy.empty_handles() == [1]


def test_a_handle_that_is_gone_takes_its_blocks_with_it() -> None:
    buddy = Buddy(HANDLE)
    buddy.add(0)
    block = buddy.allocate(GRANULE_BYTES)
    assert block is not None
    buddy.remove(0)
    assert buddy.handles == set()
    assert buddy.allocate(GRANULE_BYTES) is None
    with pytest.raises(ValueError, match="not in use"):
        buddy.release(block)
    buddy.add(0)
    assert buddy.empty_handles() == [0]


@pytest.mark.parametrize("size", [0, GRANULE_BYTES - 1, GRANULE_BYTES // 2, 3 * GRANULE_BYTES, 2 * HANDLE])
def test_sizes_that_no_block_has_are_refused(size: int) -> None:
    buddy = Buddy(HANDLE)
    buddy.add(0)
    with pytest.raises(ValueError, match=f"no block has {size} bytes"):
        buddy.allocate(size)


def test_handles_must_halve_down_to_a_granule() -> None:
    for size in (GRANULE_BYTES // 2, 3 * GRANULE_BYTES):
        with pytest.raises(ValueError, match="cannot be halved"):
            Buddy(size)
    smallest = Buddy(GRANULE_BYTES)
    smallest.add(0)
    assert smallest.allocate(GRANULE_BYTES) == Block(0, 0, GRANULE_BYTES)


def test_a_handle_is_taken_in_once() -> None:
    buddy = Buddy(HANDLE)
    buddy.add(0)
    with pytest.raises(ValueError, match="in already"):
        buddy.add(0)
