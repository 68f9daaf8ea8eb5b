"""What every arena does, the fake of the tests and the real one alike."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from memory.local_arena import LocalArena
from memory.members import admit, quarantine

from rowen.node_agent.memory.pool import Pool
from rowen.runtime.memory.arena import Arena
from rowen.runtime.memory.native_arena import NativeArena

CAPACITY = 6
BYTES = 65536


class Owner(Protocol):
    """Who may take memory away."""

    arena: Arena

    def take(self, handles: list[int]) -> None: ...

    def set_grant(self, grant: int) -> None: ...

    def said(self) -> tuple[int, int]:
        """Handles that the process wants, and uses."""


class LocalOwner:
    def __init__(self, grant: int) -> None:
        self.arena = LocalArena(CAPACITY, BYTES, grant)
        self.take = self.arena.take
        self.set_grant = self.arena.set_grant

    def said(self) -> tuple[int, int]:
        return self.arena.wanted, self.arena.used


class NativeOwner:
    def __init__(self, library: Any, pool: Pool, grant: int) -> None:
        self._library, self._pool = library, pool
        self._member = admit(pool, CAPACITY, grant)
        self.arena = NativeArena(library, self._member.arena, self._member.memory)

    def take(self, handles: list[int]) -> None:
        assert self._pool.reclaim(self._member.number, handles) == len(handles)
        assert quarantine(self._library, self.arena) == 0

    def set_grant(self, grant: int) -> None:
        assert self._pool.grant(self._member.number, grant) == grant

    def said(self) -> tuple[int, int]:
        found = self._pool.status().of(self._member.number)
        return found.wanted, found.used


Make = Callable[[int], Owner]


@pytest.fixture(params=["local", "native"])
def make(request: pytest.FixtureRequest, library: Any, make_pool: Callable[..., Pool]) -> Make:
    """Makes an owner whose arena has that grant."""
    if request.param == "local":
        return LocalOwner
    return lambda grant: NativeOwner(library, make_pool(CAPACITY, BYTES), grant)


def content(arena: Arena, handle: int) -> bytes:
    return bytes(arena.buffer[handle * arena.handle_bytes : (handle + 1) * arena.handle_bytes])


def write(arena: Arena, handle: int, value: int) -> None:
    start = handle * arena.handle_bytes
    arena.buffer[start : start + arena.handle_bytes] = bytes([value]) * arena.handle_bytes


ZEROS = bytes(BYTES)


def test_the_range_is_all_handles_and_writable(make):
    arena = make(1).arena
    assert (arena.capacity, arena.handle_bytes) == (CAPACITY, BYTES)
    assert (arena.buffer.nbytes, arena.buffer.format, arena.buffer.readonly) == (CAPACITY * BYTES, "B", False)


def test_first_handles_are_mapped_as_far_as_the_grant_goes(make):
    owner = make(3)
    arena = owner.arena
    assert arena.grant == 3
    assert arena.map([5, 0]) == 2
    assert arena.map([1, 2]) == 1
    assert arena.map([2]) == 0
    assert arena.map([]) == 0
    write(arena, 1, 7)
    owner.set_grant(CAPACITY)
    assert arena.map([2, 3, 4]) == 3
    assert content(arena, 1) == bytes([7]) * BYTES
    assert owner.arena.map([]) == 0


def test_nothing_is_mapped_without_a_grant(make):
    assert make(0).arena.map([0]) == 0


def test_mapped_handles_are_zero_and_keep_what_is_written(make):
    arena = make(CAPACITY).arena
    assert arena.map(list(range(CAPACITY))) == CAPACITY
    for handle in range(CAPACITY):
        assert content(arena, handle) == ZEROS
        write(arena, handle, handle + 1)
    arena.unmap([2])
    assert [content(arena, handle)[-1] for handle in (0, 1, 3, 4, 5)] == [1, 2, 4, 5, 6]
    assert arena.map([2]) == 1
    assert content(arena, 2) == ZEROS


def test_what_is_not_mapped_may_be_read_and_written(make):
    arena = make(2).arena
    arena.map([1])
    for handle in range(CAPACITY):
        len(content(arena, handle))
        write(arena, handle, 9)
    arena.unmap([1])
    write(arena, 1, 8)
    assert arena.map([0, 1]) == 2
    assert content(arena, 0) == content(arena, 1) == ZEROS


@pytest.mark.parametrize("handles", [[-1], [CAPACITY], [2**32], [1], [0, 1], [0, 0]], ids=str)
def test_handles_that_cannot_be_mapped_are_refused_and_none_is(make, handles):
    arena = make(CAPACITY).arena
    arena.map([1])
    write(arena, 1, 5)
    with pytest.raises(ValueError):
        arena.map(handles)
    assert content(arena, 1) == bytes([5]) * BYTES
    assert arena.map([0, 2, 3, 4, 5]) == 5


@pytest.mark.parametrize("handles", [[-1], [CAPACITY], [0], [1, 0], [1, 1]], ids=str)
def test_handles_that_cannot_be_unmapped_are_refused_and_none_is(make, handles):
    arena = make(CAPACITY).arena
    arena.map([1])
    write(arena, 1, 5)
    with pytest.raises(ValueError):
        arena.unmap(handles)
    assert content(arena, 1) == bytes([5]) * BYTES
    arena.unmap([1])
    arena.unmap([])


def test_taken_handles_are_told_once_and_counted(make):
    owner = make(5)
    arena = owner.arena
    arena.map([0, 1, 2, 3])
    assert (arena.taken, arena.lost()) == (0, [])
    owner.take([3, 1])
    assert (arena.taken, arena.grant) == (2, 3)
    assert sorted(arena.lost()) == [1, 3]
    assert arena.lost() == []
    owner.take([0])
    assert (arena.taken, arena.grant, arena.lost()) == (3, 2, [0])
    assert arena.map([3, 4, 5]) == 1


def test_accesses_to_taken_handles_do_no_harm(make):
    owner = make(4)
    arena = owner.arena
    arena.map([0, 1, 2])
    for handle in range(3):
        write(arena, handle, handle + 1)
    owner.take([1, 2])
    for handle in (1, 2):
        assert content(arena, handle) != bytes([handle + 1]) * BYTES
        write(arena, handle, 9)
    assert content(arena, 0) == bytes([1]) * BYTES
    assert arena.map([3]) == 1
    assert content(arena, 3) == ZEROS
    arena.lost()
    assert content(arena, 0) == bytes([1]) * BYTES


def test_a_handle_that_was_told_of_is_mapped_anew_and_zero(make):
    owner = make(2)
    arena = owner.arena
    arena.map([0, 1])
    write(arena, 1, 5)
    owner.take([1])
    assert arena.lost() == [1]
    write(arena, 1, 6)
    owner.set_grant(2)
    assert arena.map([1]) == 1
    assert content(arena, 1) == ZEROS


def test_a_handle_that_was_not_told_of_cannot_be_mapped(make):
    owner = make(3)
    owner.arena.map([0, 1])
    owner.take([1])
    with pytest.raises(ValueError):
        owner.arena.map([2, 1])
    assert owner.arena.map([2]) == 1


def test_a_taken_handle_that_is_given_back_is_not_told_of(make):
    owner = make(4)
    arena = owner.arena
    arena.map([0, 1, 2])
    owner.take([0, 1])
    arena.unmap([1, 2])
    assert (arena.taken, arena.grant) == (2, 2)
    assert arena.map([1, 2]) == 2
    assert arena.lost() == [0]
    with pytest.raises(ValueError):
        arena.unmap([0])


def test_a_lower_grant_takes_nothing_and_gives_nothing(make):
    owner = make(4)
    arena = owner.arena
    arena.map([0, 1, 2, 3])
    write(arena, 3, 5)
    owner.set_grant(2)
    assert (arena.grant, arena.taken, arena.lost()) == (2, 0, [])
    assert content(arena, 3) == bytes([5]) * BYTES
    arena.unmap([0])
    assert arena.map([0]) == 0
    arena.unmap([1, 2])
    assert arena.map([0, 1]) == 1


def test_it_says_what_it_wants_and_uses(make):
    owner = make(4)
    owner.arena.want(5)
    owner.arena.use(3)
    assert owner.said() == (5, 3)
    owner.arena.want(0)
    assert owner.said() == (0, 3)


def test_wait_ends_with_the_grant_or_with_the_time(make):
    owner = make(2)
    assert owner.arena.wait(2, 0.0)
    assert not owner.arena.wait(3, 0.0)
    assert not owner.arena.wait(3, 0.01)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(owner.arena.wait(4, 60.0)))
    waiting.start()
    owner.set_grant(3)
    owner.set_grant(4)
    waiting.join(30.0)
    assert answers == [True]
