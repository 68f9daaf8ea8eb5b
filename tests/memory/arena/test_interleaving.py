"""Handles are taken, or the grant falls, before and after every system call that map() and unmap() make."""

import ctypes
import errno
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory.members import ARENA_SOURCES, admit, build, held_bytes, quarantine

from rowen.node_agent.memory.pool import Admission, Pool
from rowen.runtime.memory.native_arena import NativeArena

BYTES = 8192
HANDLES = 3

Hook = Callable[[int, int, int], int]
"""Called with the number of a system call, its third argument, and whether it is over."""

MMAP, MADVISE = (9, 28) if platform.machine() == "x86_64" else (222, 233)
DONTFORK, POPULATE = 10, 23
READ_AND_WRITE = 3


class Hooked:
    """The arena's code with a hook around its system calls, and a pool of the library proper beside it."""

    def __init__(self, library: Any, pool: Pool) -> None:
        self.library, self.pool = library, pool
        self._type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int)
        self._library_hook: Any = None

    def arena(self, grant: int = HANDLES) -> tuple[NativeArena, Admission]:
        admission = admit(self.pool, HANDLES, grant)
        return NativeArena(self.library, admission.arena, admission.memory), admission

    def hooked(self, hook: Hook | None, call: Callable[[], Any]) -> Any:
        """Makes the call with that hook."""
        self._library_hook = self._type(hook) if hook else None
        self.library.set_hook(self._library_hook)
        try:
            return call()
        finally:
            self.library.set_hook(None)

    def points(self, call: Callable[[], Any]) -> int:
        """How often the hook is called in a call."""
        seen = []
        self.hooked(lambda number, *_: seen.append(number) or 0, call)
        return len(seen)


@pytest.fixture(scope="session")
def hooked_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tmp_path_factory.mktemp("hook") / "hooked.so"
    sources = [Path(__file__).parent / "hook.c", *ARENA_SOURCES]
    library = ctypes.CDLL(str(build(made, sources, "-shared", "-fPIC", "-Wl,--wrap=syscall")))
    library.rowen_arena_quarantine.argtypes = [ctypes.c_void_p]
    return library


@pytest.fixture
def hooked(hooked_library: Any, make_pool: Callable[..., Pool]) -> Hooked:
    return Hooked(hooked_library, make_pool(1000, BYTES))


def at(point: int, event: Callable[[], Any]) -> Hook:
    """Makes the event happen at that point."""
    count = 0

    def hook(*_: int) -> int:
        nonlocal count
        if count == point:
            event()
        count += 1
        return 0

    return hook


def failing(call: tuple[int, int], error: int, first: int = 0, times: int = 10**9) -> Hook:
    """Makes system calls with that third argument fail, from a first one on, so many of them."""
    count = 0

    def hook(number: int, third: int, after: int) -> int:
        nonlocal count
        if (number, third) != call or after:
            return 0
        count += 1
        return error if first < count <= first + times else 0

    return hook


def both(one: Hook, other: Hook) -> Hook:
    return lambda *call: one(*call) or other(*call)


def touch(arena: NativeArena) -> None:
    """Late accesses to everything."""
    for start in range(0, len(arena.buffer), 4096):
        arena.buffer[start] = 1


def take(hooked: Hooked, arena: NativeArena, admission: Admission, *, quarantined: bool) -> None:
    hooked.pool.reclaim(admission.number, range(HANDLES))
    hooked.pool.settle()
    if quarantined:
        assert quarantine(hooked.library, arena) == 0


def ends_clean(hooked: Hooked, arena: NativeArena, admission: Admission, mapped: set[int]) -> None:
    """What the calls have said agrees with what there is, and nothing stays behind."""
    touch(arena)
    assert quarantine(hooked.library, arena) == 0
    lost = set(arena.lost())
    assert lost <= mapped
    found = hooked.pool.status().of(admission.number)
    assert found.held == len(mapped - lost)
    assert held_bytes(admission) == found.held * BYTES
    arena.unmap(sorted(mapped - lost))
    touch(arena)
    assert held_bytes(admission) == 0
    hooked.pool.grant(admission.number, HANDLES)
    assert arena.map(range(HANDLES)) == HANDLES
    assert not any(arena.buffer)


@pytest.mark.parametrize("quarantined", [True, False], ids=["parked", "backstop"])
def test_handles_taken_in_the_middle_of_map(hooked, quarantined):
    arena, _ = hooked.arena()
    points = hooked.points(lambda: arena.map(range(HANDLES)))
    assert points >= 2 * 3 * HANDLES
    for point in range(points):
        arena, admission = hooked.arena()
        event = at(point, lambda: take(hooked, arena, admission, quarantined=quarantined))  # noqa: B023
        count = hooked.hooked(event, lambda: arena.map(range(HANDLES)))  # noqa: B023
        ends_clean(hooked, arena, admission, set(range(count)))


@pytest.mark.parametrize("quarantined", [True, False], ids=["parked", "backstop"])
def test_handles_taken_in_the_middle_of_unmap(hooked, quarantined):
    arena, _ = hooked.arena()
    arena.map(range(HANDLES))
    points = hooked.points(lambda: arena.unmap([0, 1]))
    assert points >= 2 * 3 * 2
    for point in range(points):
        arena, admission = hooked.arena()
        arena.map(range(HANDLES))
        event = at(point, lambda: take(hooked, arena, admission, quarantined=quarantined))  # noqa: B023
        hooked.hooked(event, lambda: arena.unmap([0, 1]))  # noqa: B023
        assert 2 in arena.lost()
        ends_clean(hooked, arena, admission, set())


def test_handles_taken_in_the_middle_of_lost(hooked):
    arena, admission = hooked.arena()
    arena.map(range(HANDLES))
    take(hooked, arena, admission, quarantined=False)
    points = hooked.points(arena.lost)
    for point in range(points):
        arena, admission = hooked.arena()
        arena.map(range(HANDLES))
        hooked.pool.reclaim(admission.number, [1])
        event = at(point, lambda: take(hooked, arena, admission, quarantined=True))  # noqa: B023
        told = hooked.hooked(event, arena.lost)
        ends_clean(hooked, arena, admission, set(range(HANDLES)) - set(told))


def test_a_kernel_that_cannot_populate_addresses_allocates_in_the_file(hooked):
    old_kernel = (MADVISE, POPULATE), errno.EINVAL
    arena, admission = hooked.arena()
    assert hooked.hooked(failing(*old_kernel), lambda: arena.map(range(HANDLES))) == HANDLES
    assert held_bytes(admission) == HANDLES * BYTES
    ends_clean(hooked, arena, admission, set(range(HANDLES)))
    for point in range(2 * 4 * HANDLES):
        arena, admission = hooked.arena()
        event = at(point, lambda: take(hooked, arena, admission, quarantined=True))  # noqa: B023
        count = hooked.hooked(both(event, failing(*old_kernel)), lambda: arena.map(range(HANDLES)))  # noqa: B023
        ends_clean(hooked, arena, admission, set(range(count)))


def test_the_grant_falls_in_the_middle_of_map(hooked):
    """What the agent has counted as free stays so: nothing comes to be held beyond what it saw."""
    arena, _ = hooked.arena()
    points = hooked.points(lambda: arena.map(range(HANDLES)))
    counts = set()
    for point in range(points):
        arena, admission = hooked.arena()
        owned = []

        def fall(number: int = admission.number, owned: list[int] = owned) -> None:
            hooked.pool.grant(number, 1)
            owned.append(hooked.pool.status().of(number).owned)

        count = hooked.hooked(at(point, fall), lambda: arena.map(range(HANDLES)))  # noqa: B023
        assert hooked.pool.status().of(admission.number).owned <= owned[0]
        assert held_bytes(admission) == count * BYTES <= owned[0] * BYTES
        counts.add(count)
        ends_clean(hooked, arena, admission, set(range(count)))
    assert counts == {1, 2, 3}


@pytest.mark.parametrize(
    "call", [(MMAP, READ_AND_WRITE), (MADVISE, DONTFORK), (MADVISE, POPULATE)], ids=["mmap", "dontfork", "populate"]
)
@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EFAULT])
def test_a_handle_that_gets_no_memory_is_not_mapped(hooked, call, error):
    arena, admission = hooked.arena()
    count = hooked.hooked(failing(call, error, first=1, times=1), lambda: arena.map(range(HANDLES)))
    assert count == 1
    found = hooked.pool.status().of(admission.number)
    assert (found.held, held_bytes(admission)) == (1, BYTES)
    ends_clean(hooked, arena, admission, {0})


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.EINTR])
def test_the_kernel_is_asked_again_when_it_says_so_but_not_for_ever(hooked, error):
    arena, _ = hooked.arena()
    populate = (MADVISE, POPULATE)
    assert hooked.hooked(failing(populate, error, times=3), lambda: arena.map([0])) == 1
    assert hooked.hooked(failing(populate, error), lambda: arena.map([1])) == 0


def test_the_control_thread_learns_what_could_not_be_quarantined(hooked):
    arena, admission = hooked.arena()
    arena.map(range(HANDLES))
    hooked.pool.reclaim(admission.number, [0, 1])
    refused = failing((MMAP, READ_AND_WRITE), errno.ENOMEM, first=1, times=1)
    assert hooked.hooked(refused, lambda: quarantine(hooked.library, arena)) == -errno.ENOMEM
    assert quarantine(hooked.library, arena) == 0
    touch(arena)
    ends_clean(hooked, arena, admission, set(range(HANDLES)))


def test_quarantine_makes_no_system_call_when_nothing_was_taken(hooked):
    arena, admission = hooked.arena()
    arena.map(range(HANDLES))
    assert hooked.points(lambda: quarantine(hooked.library, arena)) == 0
    hooked.pool.reclaim(admission.number, [1])
    assert hooked.points(lambda: quarantine(hooked.library, arena)) > 0
    assert hooked.points(lambda: quarantine(hooked.library, arena)) == 0
