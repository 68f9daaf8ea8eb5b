"""Arenas that outlive their agent: the next pool goes on with them, and believes nothing that they say."""

import ctypes
import fcntl
import mmap
import os
import random
import struct

import pytest
from memory.members import admit, held_bytes, quarantine

from rowen.node_agent.memory.pool import Admission, Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.runtime.memory.native_arena import NativeArena

BYTES = mmap.PAGESIZE
MAGIC = 0x414E4552414E574F
HEAD = struct.Struct("<QIIQII")
SHRINK, GROW, WRITE, SEAL, FUTURE_WRITE = (
    fcntl.F_SEAL_SHRINK,
    fcntl.F_SEAL_GROW,
    fcntl.F_SEAL_WRITE,
    fcntl.F_SEAL_SEAL,
    0x10,
)
SEALS = SHRINK | GROW | SEAL


class Orphan:
    """An arena of this process, whose agent is gone."""

    book = None
    """Of the test; who is in it, has been lent its grant."""

    def __init__(self, library, kind=Kind.OFFLINE, *, held=3, grant=6, capacity=8, in_book=True):
        self._library = library
        pool = Pool(100, BYTES)
        pool.keep(self.book)
        admission = admit(pool, capacity, grant, kind)
        if in_book:
            pool.name(admission.number, os.getpid())
        self.files = os.dup(admission.arena), os.dup(admission.memory)
        self.arena = NativeArena(library, *self.files)
        assert self.arena.map(range(held)) == held
        pool.status()
        self.pool, self.member = pool, admission.number

    def leave(self):
        self.pool.close()
        return self

    def lost(self):
        assert quarantine(self._library, self.arena) == 0
        return self.arena.lost()


@pytest.fixture(autouse=True)
def book(monkeypatch, tmp_path):
    monkeypatch.setattr(Orphan, "book", tmp_path / "book")


@pytest.fixture
def make_pool(make_pool):
    def make(*arguments):
        pool = make_pool(*arguments)
        pool.keep(Orphan.book)
        return pool

    return make


@pytest.fixture
def orphan(library):
    return lambda *arguments, **settings: Orphan(library, *arguments, **settings).leave()


def adopt(pool, orphan, kind=Kind.OFFLINE, pid=None):
    number = pool.adopt(kind, pid or os.getpid(), *orphan.files)
    return pool.status().of(number)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_next_pool_goes_on_with_what_is_held(make_pool, orphan, kind):
    had = orphan(kind)
    had.arena.buffer[0] = 42
    pool = make_pool(10, BYTES)
    found = adopt(pool, had, kind)
    assert (found.kind, found.granted, found.owned, found.held, found.overdrawn) == (kind, 3, 3, 3, 0)
    assert pool.status().free == 7
    assert (had.arena.grant, had.arena.buffer[0]) == (3, 42)
    for now in (1.0, 2.0):
        pool.serve(now, offline_stopped=False)
        assert pool.status().of(found.number).granted == 3
    assert had.arena.map([5]) == 0
    had.arena.unmap([0])
    assert had.arena.map([5]) == 1


def test_an_adopted_engine_gets_what_it_wants(make_pool, orphan):
    had = orphan(Kind.ONLINE)
    pool = make_pool(10, BYTES)
    number = adopt(pool, had, Kind.ONLINE).number
    had.arena.want(7)
    assert pool.serve(1.0, offline_stopped=False) == 0
    assert (had.arena.grant, pool.status().of(number).target) == (7, 7)


def test_an_engine_that_had_taken_the_agent_for_gone_has_what_the_agent_grants_it(make_pool, orphan):
    had = orphan(Kind.ONLINE)
    pool = make_pool(10, BYTES)
    number = adopt(pool, had, Kind.ONLINE).number
    with mmap.mmap(had.files[0], 0) as page:
        page[64:68] = (7).to_bytes(4, "little")
    assert had.arena.grant == 7
    found = adopt(pool, had, Kind.ONLINE)
    assert (found.number, found.granted, had.arena.grant, pool.status().free) == (number, 3, 3, 7)


def test_an_adopted_tenant_gets_its_share(make_pool, orphan):
    had = orphan()
    pool = make_pool(10, BYTES)
    number = adopt(pool, had).number
    had.arena.want(8)
    pool.serve(1.0, offline_stopped=False)
    assert had.arena.grant == 3
    pool.share(number, 0, 8)
    pool.serve(1.0, offline_stopped=False)
    assert had.arena.grant == 8


def test_a_tenant_that_is_not_in_the_book_is_granted_nothing_by_its_own_word(make_pool, orphan):
    had = orphan(in_book=False)
    pool = make_pool(10, BYTES)
    found = adopt(pool, had)
    assert (found.granted, found.overdrawn, found.owned) == (0, 3, 3)
    assert pool.status().free == 7
    had.arena.unmap([2])
    found = pool.status().of(found.number)
    assert (found.granted, found.overdrawn, found.owned) == (0, 2, 2)
    pool.share(found.number, 0, 8)
    had.arena.want(8)
    pool.serve(1.0, offline_stopped=False)
    assert pool.status().of(found.number).granted == 8


def test_handles_that_are_only_said_to_be_held_are_nobodys(make_pool):
    pool = make_pool(10, BYTES)
    forged = arena_file(states=struct.pack("<4I", 1, 1, 1, 1)), memory_file(4 * BYTES)
    number = pool.adopt(Kind.OFFLINE, os.getpid(), *forged)
    found = pool.status().of(number)
    assert (found.held, found.granted, found.owned) == (4, 0, 0)
    assert pool.status().free == 10


def test_an_engine_keeps_what_it_took_while_there_was_no_agent(make_pool, library):
    had = Orphan(library, Kind.ONLINE, held=5).leave()
    tenant = Orphan(library, held=6).leave()
    pool = make_pool(8, BYTES)
    assert adopt(pool, tenant).granted == 6
    found = adopt(pool, had, Kind.ONLINE)
    assert (found.granted, found.overdrawn, pool.status().free) == (5, 0, 0)
    library.rowen_pool_lacks.restype = ctypes.c_bool
    lacks = lambda: library.rowen_pool_lacks(ctypes.c_void_p(pool.handle))  # noqa: E731
    assert (pool.serve(1.0, offline_stopped=False), lacks()) == (3, True)
    assert (had.arena.grant, tenant.arena.taken) == (5, 0)
    assert (pool.serve(2.0, offline_stopped=True), lacks()) == (0, False)
    assert len(tenant.lost()) == 3
    assert sum(member.owned for member in pool.status().members) == 8


def test_what_a_tenant_had_been_lent_is_taken_from_it_if_the_engine_comes_first(make_pool, library):
    tenant = Orphan(library, held=6).leave()
    engine = Orphan(library, Kind.ONLINE, held=5, in_book=False).leave()
    pool = make_pool(8, BYTES)
    assert adopt(pool, engine, Kind.ONLINE, os.getppid()).granted == 5
    found = adopt(pool, tenant)
    assert (found.granted, found.overdrawn) == (6, 0)
    assert pool.serve(1.0, offline_stopped=True) == 0
    assert (engine.arena.grant, len(tenant.lost())) == (5, 3)


def test_an_arena_that_is_here_already_is_the_same_member(make_pool, orphan):
    had = orphan()
    pool = make_pool(10, BYTES)
    number = adopt(pool, had).number
    assert adopt(pool, had).number == number
    assert len(pool.status().members) == 1
    pool.dismiss(number)
    assert pool.status().free == 10


def test_an_adopted_member_that_is_dismissed_leaves_nothing(make_pool, orphan):
    had = orphan()
    pool = make_pool(10, BYTES)
    pool.dismiss(adopt(pool, had).number)
    assert held_bytes(Admission(0, *had.files)) == 0
    assert pool.status().free == 10


def test_adopted_handles_can_be_taken_and_are_counted_on(make_pool, library):
    had = Orphan(library)
    assert had.pool.reclaim(had.member, [0]) == 1
    had.leave()
    pool = make_pool(10, BYTES)
    number = adopt(pool, had).number
    before = had.arena.taken
    assert had.lost() == [0]
    assert pool.reclaim(number, [2]) == 1
    assert had.arena.taken == before + 1
    assert had.lost() == [2]


def test_an_agent_that_died_between_taking_a_handle_and_saying_so(make_pool, library, orphan):
    had = orphan()
    with mmap.mmap(had.files[0], 0) as page:
        page[192 + 4 : 192 + 8] = (2).to_bytes(4, "little")
    pool = make_pool(10, BYTES)
    taken = had.arena.taken
    adopt(pool, had)
    assert had.arena.taken == taken + 1
    pool.settle()
    assert held_bytes(Admission(0, *had.files)) == 2 * BYTES
    assert quarantine(library, had.arena) == 0
    had.arena.buffer[BYTES] = 1
    assert held_bytes(Admission(0, *had.files)) == 2 * BYTES
    assert had.arena.lost() == [1]


def test_a_pool_has_a_most_of_adopted_members(make_pool, orphan):
    pool = make_pool(10, BYTES)
    for _ in range(224):
        pool.admit(Kind.OFFLINE, 1)
    with pytest.raises(OSError, match="the arena of process"):
        adopt(pool, orphan())
    assert adopt(pool, orphan(Kind.ONLINE), Kind.ONLINE).kind is Kind.ONLINE


def memory_file(size, seals=SEALS):
    fd = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def arena_file(size=192, capacity=4, handle_bytes=BYTES, magic=MAGIC, seals=SEALS, length=None, states=b""):
    fd = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 192 + 4 * 4 if length is None else length)
    os.pwrite(fd, HEAD.pack(magic, size, 0, handle_bytes, capacity, 0), 0)
    os.pwrite(fd, states, size) if states else None
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def beyond_the_end():
    fd = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, 5 * BYTES)
    import ctypes

    ctypes.CDLL(None).ftruncate(fd, ctypes.c_long(4 * BYTES))
    assert ctypes.CDLL(None).fallocate(fd, 1, ctypes.c_long(0), ctypes.c_long(5 * BYTES)) == 0
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def read_only(make):
    fd = make()
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)


def plain():
    return os.open("/dev/null", os.O_RDWR)


def tmpfs_file(size):
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    os.ftruncate(fd, size)
    return fd


GOOD_ARENA, GOOD_MEMORY = arena_file, lambda: memory_file(4 * BYTES)


@pytest.mark.parametrize(
    ("arena", "memory", "error"),
    [
        (plain, GOOD_MEMORY, PermissionError),
        (GOOD_ARENA, plain, PermissionError),
        (GOOD_ARENA, lambda: tmpfs_file(4 * BYTES), PermissionError),
        (lambda: arena_file(seals=SHRINK | SEAL), GOOD_MEMORY, PermissionError),
        (lambda: arena_file(seals=SHRINK | GROW), GOOD_MEMORY, PermissionError),
        (GOOD_ARENA, lambda: memory_file(4 * BYTES, GROW | SEAL), PermissionError),
        (GOOD_ARENA, lambda: memory_file(4 * BYTES, SEALS | WRITE), PermissionError),
        (GOOD_ARENA, lambda: memory_file(4 * BYTES, SEALS | FUTURE_WRITE), PermissionError),
        (lambda: read_only(GOOD_ARENA), GOOD_MEMORY, PermissionError),
        (GOOD_ARENA, lambda: read_only(GOOD_MEMORY), PermissionError),
        (lambda: arena_file(magic=MAGIC + 1), GOOD_MEMORY, OSError),
        (lambda: arena_file(handle_bytes=2 * BYTES), lambda: memory_file(8 * BYTES), OSError),
        (lambda: arena_file(size=188), GOOD_MEMORY, OSError),
        (lambda: arena_file(size=194, length=300), GOOD_MEMORY, OSError),
        (lambda: arena_file(size=(1 << 20) + 4, length=2 << 20), GOOD_MEMORY, OSError),
        (lambda: arena_file(size=2**32 - 4, length=2**33), GOOD_MEMORY, OSError),
        (lambda: arena_file(capacity=0), lambda: memory_file(0), OSError),
        (lambda: arena_file(capacity=32769, length=1 << 20), lambda: memory_file(32769 * BYTES), OSError),
        (lambda: arena_file(length=192 + 15), GOOD_MEMORY, OSError),
        (lambda: arena_file(length=100), GOOD_MEMORY, OSError),
        (GOOD_ARENA, lambda: memory_file(3 * BYTES), OSError),
        (GOOD_ARENA, lambda: memory_file(5 * BYTES), OSError),
        (GOOD_ARENA, beyond_the_end, OSError),
        (lambda: -1, GOOD_MEMORY, OSError),
        (GOOD_ARENA, lambda: -1, OSError),
    ],
)
def test_files_that_are_none_of_an_agent_s_are_refused(make_pool, arena, memory, error):
    pool = make_pool(10, BYTES)
    with pytest.raises(error, match="the arena of process 1"):
        pool.adopt(Kind.OFFLINE, 1, arena(), memory())
    assert (pool.status().members, pool.status().free) == ((), 10)


@pytest.mark.parametrize("size", [192, 1 << 20])
@pytest.mark.parametrize("capacity", [4])
def test_files_of_other_releases_are_taken(make_pool, size, capacity):
    states = struct.pack("<4I", 1, 1, 0, 1)
    arena = arena_file(size=size, capacity=capacity, length=size + 16, states=states)
    memory = GOOD_MEMORY()
    pool = make_pool(10, BYTES)
    number = pool.adopt(Kind.ONLINE, 1, arena, memory)
    assert pool.status().of(number).held == 3


def test_a_kind_that_is_none(make_pool, orphan):
    for kind in (0, 3):
        with pytest.raises(ValueError, match="the arena of process"):
            make_pool(10, BYTES).adopt(kind, os.getpid(), *orphan().files)


@pytest.mark.parametrize("seed", range(30))
def test_pages_that_say_anything_own_what_they_hold(make_pool, seed):
    generator = random.Random(seed)
    length = 192 + 4 * 4
    arena = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
    os.pwrite(arena, generator.randbytes(length), 0)
    os.pwrite(arena, HEAD.pack(MAGIC, 192, generator.getrandbits(32), BYTES, 4, 0), 0)
    fcntl.fcntl(arena, fcntl.F_ADD_SEALS, SEALS)
    memory = GOOD_MEMORY()
    really = generator.randrange(5)
    os.pwrite(memory, b"x" * really * BYTES, 0)
    pool = make_pool(6, BYTES)
    admit(pool, 6, 3)
    kind = generator.choice(list(Kind))
    number = pool.adopt(kind, 1, arena, memory)
    for _ in range(3):
        pool.serve(1.0, offline_stopped=True)
        members = pool.status().members
        assert sum(found.granted for found in members) <= 6
        assert [found.really_held for found in members if found.number == number] == [really]
    pool.settle()
