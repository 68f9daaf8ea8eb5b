"""What members write into their pages, be it rubbish or cunning, harms nobody but them."""

import mmap
import os
import random
import struct
import traceback
from collections.abc import Callable

import pytest

from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind

BYTES = mmap.PAGESIZE
TOTAL, CAPACITY = 64, 48
SIZE = 192
WORDS = [0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


class Liar:
    """A member whose page anybody may write."""

    def __init__(self, pool, kind) -> None:
        self.kind = kind
        self.admission = pool.admit(kind, CAPACITY)
        self.number = self.admission.number
        self.page = mmap.mmap(self.admission.arena, SIZE + 4 * CAPACITY)

    def states(self, state: int) -> None:
        self.page[SIZE:] = struct.pack("<I", state) * CAPACITY

    def scribble(self, source: random.Random) -> None:
        length = len(self.page)
        if source.random() < 0.2:
            self.page[:] = source.randbytes(length)
        for _ in range(source.randrange(20)):
            struct.pack_into("<I", self.page, 4 * source.randrange(length // 4), source.choice(WORDS))
        for _ in range(source.randrange(3)):
            os.pwrite(self.admission.memory, b"x", source.randrange(CAPACITY * BYTES))
        if source.random() < 0.05:
            self.page.madvise(mmap.MADV_REMOVE)


def call_something(source, pool, liars):
    liar = source.choice(liars)
    low, high = sorted(source.choices(range(CAPACITY + 1), k=2))

    def decide():
        if liar.kind == Kind.OFFLINE:
            pool.share(liar.number, low, high)
        else:
            pressures = pool.status().of(liar.number).pressures
            assert pool.demand(liar.number, pressures=pressures, target=low, growth=high, threshold=0.9)

    def reclaim():
        handles = source.choices([*range(CAPACITY), *WORDS], k=source.randrange(CAPACITY))
        assert pool.reclaim(liar.number, handles) <= len(handles)

    def leave():
        pool.dismiss(liar.number)
        liars[liars.index(liar)] = Liar(pool, liar.kind)

    def grant():
        assert pool.grant(liar.number, low) <= low

    def serve():
        assert pool.serve(source.random() * 100, offline_stopped=source.random() < 0.5) <= 2 * CAPACITY

    source.choices([serve, decide, reclaim, grant, pool.settle, leave], [10, 5, 5, 5, 3, 1])[0]()


def fuzz(seed: int) -> None:
    source = random.Random(seed)
    pool = Pool(TOTAL, BYTES)
    liars = [Liar(pool, kind) for kind in (Kind.ONLINE, Kind.ONLINE, Kind.OFFLINE, Kind.OFFLINE)]
    for _ in range(3000):
        source.choice(liars).scribble(source)
        call_something(source, pool, liars)
        status = pool.status()
        assert sum(found.granted for found in status.members) <= TOTAL
        assert status.free + min(TOTAL, sum(found.owned for found in status.members)) == TOTAL
        for found, liar in zip(status.members, sorted(liars, key=lambda liar: liar.number), strict=True):
            assert (found.number, found.kind) == (liar.number, liar.kind)
            assert max(found.granted, found.held, found.used, found.wanted, found.target) <= CAPACITY
            assert found.really_held <= CAPACITY


def in_child(call: Callable[[], None]) -> int:
    """Runs it where a crash ends nothing else."""
    number = os.fork()
    if number == 0:
        try:
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@pytest.mark.parametrize("seed", range(3))
def test_rubbish_in_pages_harms_nobody(seed):
    assert in_child(lambda: fuzz(seed)) == 0


@pytest.fixture
def pool(make_pool):
    return make_pool(TOTAL, BYTES)


def test_who_says_that_it_holds_everything_owns_no_more_than_it_was_granted(pool):
    liar = Liar(pool, Kind.OFFLINE)
    pool.grant(liar.number, 10)
    liar.states(1)
    found = pool.status().of(liar.number)
    assert (found.held, found.owned, pool.status().free) == (CAPACITY, 10, TOTAL - 10)
    pool.grant(liar.number, 4)
    assert (pool.status().of(liar.number).owned, pool.status().free) == (10, TOTAL - 10)
    liar.states(0)
    assert (pool.status().of(liar.number).owned, pool.status().free) == (4, TOTAL - 4)
    liar.states(1)
    assert pool.status().of(liar.number).owned == 4


def test_who_raises_its_own_grant_has_none(pool):
    liar = Liar(pool, Kind.OFFLINE)
    pool.grant(liar.number, 10)
    liar.page[64:68] = struct.pack("<I", 40)
    assert (pool.status().of(liar.number).granted, pool.status().free) == (10, TOTAL - 10)
    os.posix_fallocate(liar.admission.memory, 0, 40 * BYTES)
    found = pool.status().of(liar.number)
    assert (found.overdrawn, found.owned, pool.status().free) == (30, 40, TOTAL - 40)


def test_what_was_granted_to_others_is_not_granted_to_who_took_it(pool):
    thief, victim = Liar(pool, Kind.OFFLINE), Liar(pool, Kind.OFFLINE)
    pool.share(thief.number, 0, CAPACITY)
    pool.grant(thief.number, 24)
    pool.grant(victim.number, 40)
    os.posix_fallocate(thief.admission.memory, 0, CAPACITY * BYTES)
    assert pool.grant(thief.number, 30) == 24
    pool.share(victim.number, 0, 40)
    for liar in (thief, victim):
        liar.page[132:136] = struct.pack("<I", CAPACITY)
    pool.serve(1.0, offline_stopped=False)
    assert pool.status().of(thief.number).granted == 24


@pytest.mark.parametrize("state", [0, 1, 2, 3])
def test_memory_of_a_stopped_liar_is_got_whatever_its_page_says(pool, state):
    online, liar = Liar(pool, Kind.ONLINE), Liar(pool, Kind.OFFLINE)
    pool.share(liar.number, 5, CAPACITY)
    os.posix_fallocate(liar.admission.memory, 0, CAPACITY * BYTES)
    liar.states(state)
    pool.demand(online.number, pressures=0, target=CAPACITY, growth=0, threshold=0.9)
    rounds = 1
    while pool.serve(float(rounds), offline_stopped=True):
        rounds += 1
        assert rounds < 20
    assert pool.status().of(online.number).granted == CAPACITY
    assert os.fstat(liar.admission.memory).st_blocks * 512 <= (TOTAL - CAPACITY) * BYTES


@pytest.mark.parametrize("state", [0, 1, 2, 3])
def test_memory_that_a_liar_was_granted_is_got_back_whatever_its_page_says(pool, state):
    online, liar = Liar(pool, Kind.ONLINE), Liar(pool, Kind.OFFLINE)
    pool.share(liar.number, 0, CAPACITY)
    liar.page[132:136] = struct.pack("<I", CAPACITY)
    pool.serve(0.1, offline_stopped=False)
    assert pool.status().of(liar.number).granted == CAPACITY
    os.posix_fallocate(liar.admission.memory, 0, CAPACITY * BYTES)
    liar.states(state)
    pool.demand(online.number, pressures=0, target=CAPACITY, growth=0, threshold=0.9)
    rounds = 1
    while pool.serve(float(rounds), offline_stopped=rounds % 2 == 0):
        rounds += 1
        assert rounds < 20
    assert pool.status().of(online.number).granted == CAPACITY
    assert os.fstat(liar.admission.memory).st_blocks * 512 <= (TOTAL - CAPACITY) * BYTES
