"""Who may hold how much: grants, targets, shares, and what is taken. Members are arenas of this process."""

import ctypes
import mmap
import os
import threading

import pytest
from memory.members import admit, held_bytes, quarantine

from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.runtime.memory.native_arena import NativeArena

BYTES = mmap.PAGESIZE
RETURN_SECONDS = 10.0


class Member:
    """A member of a pool, and its arena."""

    def __init__(self, library, pool, kind, capacity=100):
        self._library, self._pool, self._capacity = library, pool, capacity
        self.admission = pool.admit(kind, capacity)
        self.number = self.admission.number
        self.arena = NativeArena(library, self.admission.arena, self.admission.memory)

    @property
    def status(self):
        return self._pool.status().of(self.number)

    @property
    def granted(self):
        return self.status.granted

    def lost(self):
        assert quarantine(self._library, self.arena) == 0
        return self.arena.lost()

    def demand(self, target, growth=0, threshold=0.9, pressures=None):
        seen = self.status.pressures if pressures is None else pressures
        return self._pool.demand(self.number, pressures=seen, target=target, growth=growth, threshold=threshold)

    def holds(self, count, request=0):
        """An offline member that holds the first handles, by a share of so many."""
        self._pool.share(self.number, request, self._capacity)
        self.arena.want(count)
        self._pool.serve(0.0, offline_stopped=False)
        assert self.arena.map(range(count)) == count
        return self


@pytest.fixture
def join(library):
    def join(pool, kind, capacity=100):
        return Member(library, pool, kind, capacity)

    return join


def serve(pool, now=0.0, *, stopped=False):
    return pool.serve(now, offline_stopped=stopped)


@pytest.mark.parametrize(
    ("handles", "handle_bytes"), [(0, BYTES), (2**20 + 1, BYTES), (1, BYTES // 2), (1, 3 * BYTES), (1, 0)]
)
def test_pools_that_cannot_be(handles, handle_bytes):
    with pytest.raises(ValueError, match=f"a pool of {handles} handles of {handle_bytes} bytes"):
        Pool(handles, handle_bytes)


@pytest.mark.parametrize(("handles", "handle_bytes"), [(1, BYTES), (2**20, 2 << 20), (3, 4 * BYTES)])
def test_pools_that_can_be(make_pool, handles, handle_bytes):
    found = make_pool(handles, handle_bytes).status()
    assert (found.total, found.free, found.handle_bytes, found.members) == (handles, handles, handle_bytes, ())


def test_a_member_has_a_capacity_that_its_addresses_can_have(make_pool):
    pool = make_pool(4, BYTES)
    for capacity in (0, 32769):
        with pytest.raises(ValueError, match=f"a member of {capacity} handles"):
            pool.admit(Kind.ONLINE, capacity)
    assert pool.admit(Kind.ONLINE, 32768).number == 1
    assert pool.admit(Kind.OFFLINE, 1).number == 2
    pool.dismiss(2)
    assert pool.admit(Kind.OFFLINE, 1).number == 3
    assert [(found.number, found.kind) for found in pool.status().members] == [(1, Kind.ONLINE), (3, Kind.OFFLINE)]


def test_a_pool_has_a_most_of_members(make_pool):
    pool = make_pool(4, BYTES)
    numbers = [pool.admit(Kind.OFFLINE, 1).number for _ in range(224)]
    with pytest.raises(OSError, match="a member of 1 handles"):
        pool.admit(Kind.OFFLINE, 1)
    pool.dismiss(numbers[3])
    assert pool.admit(Kind.OFFLINE, 1).number == 225
    assert [pool.admit(Kind.ONLINE, 1).number for _ in range(32)] == [*range(226, 258)]
    with pytest.raises(OSError, match="a member of 1 handles"):
        pool.admit(Kind.ONLINE, 1)
    assert len(pool.status().members) == 256


def test_a_grant_is_raised_out_of_what_is_free(make_pool):
    pool = make_pool(10, BYTES)
    one, other = pool.admit(Kind.ONLINE, 8).number, pool.admit(Kind.OFFLINE, 10).number
    assert pool.grant(one, 8) == 8
    assert pool.grant(other, 3) == 2
    assert pool.grant(one, 5) == 5
    assert pool.status().free == 3
    assert pool.grant(other, 10) == 5
    with pytest.raises(ValueError):
        pool.grant(one, 9)
    with pytest.raises(KeyError):
        pool.grant(99, 1)


def test_demands_and_shares_are_checked(make_pool, join):
    pool = make_pool(10, BYTES)
    online, offline = join(pool, Kind.ONLINE, 8), join(pool, Kind.OFFLINE, 8)
    assert online.demand(8, 8, 1.0)
    for target, growth, threshold in [(9, 0, 0.9), (0, 9, 0.9), (1, 1, 0.0), (1, 1, 1.01), (1, 1, float("nan"))]:
        with pytest.raises(ValueError, match=f"target {target}, growth {growth}, threshold {threshold}"):
            online.demand(target, growth, threshold)
    with pytest.raises(ValueError):
        offline.demand(1)
    pool.share(offline.number, 8, 8)
    for number, request, limit in [(offline.number, 3, 2), (offline.number, 0, 9), (online.number, 1, 1)]:
        with pytest.raises(ValueError, match=f"request {request}, limit {limit} of offline member {number}"):
            pool.share(number, request, limit)
    for call in (lambda: pool.share(99, 0, 0), lambda: pool.reclaim(99, [0])):
        with pytest.raises(KeyError):
            call()


class TestOnline:
    def test_targets_are_met_out_of_free_handles(self, make_pool, join):
        pool = make_pool(10, BYTES)
        first, second = join(pool, Kind.ONLINE), join(pool, Kind.ONLINE)
        first.demand(6)
        second.demand(3)
        assert serve(pool) == 0
        assert (first.granted, second.granted, pool.status().free) == (6, 3, 1)
        second.demand(7)
        assert serve(pool) == 3
        assert (first.granted, second.granted, pool.status().free, pool.status().deficit) == (6, 4, 0, 3)
        first.demand(1)
        assert serve(pool) == 0
        assert (first.granted, second.granted, pool.status().free, pool.status().deficit) == (1, 7, 2, 0)

    @pytest.mark.parametrize(("used", "granted", "pressures"), [(0, 10, 0), (8, 10, 0), (9, 15, 1), (10, 15, 1)])
    def test_its_use_raises_the_target_to_the_growth_once(self, make_pool, join, used, granted, pressures):
        pool = make_pool(100, BYTES)
        member = join(pool, Kind.ONLINE)
        member.demand(10, 15)
        serve(pool)
        member.arena.use(used)
        for _ in range(3):
            assert serve(pool) == 0
        found = member.status
        assert (found.granted, found.target, found.pressures, found.used) == (granted, granted, pressures, used)

    def test_no_use_of_no_grant_is_no_pressure(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.ONLINE)
        member.demand(0, 5)
        serve(pool)
        assert (member.granted, member.status.pressures) == (0, 0)

    @pytest.mark.parametrize(("wanted", "granted"), [(10, 10), (11, 15), (15, 15), (16, 16), (40, 40), (1000, 50)])
    def test_what_it_wants_beyond_its_grant_is_served(self, make_pool, join, wanted, granted):
        pool = make_pool(100, BYTES)
        member = join(pool, Kind.ONLINE, 50)
        member.demand(10, 15)
        serve(pool)
        member.arena.want(wanted)
        for _ in range(2):
            serve(pool)
        assert (member.granted, member.status.pressures) == (granted, int(granted > 10))

    def test_a_decision_from_before_the_pressure_is_refused(self, make_pool, join):
        pool = make_pool(100, BYTES)
        member = join(pool, Kind.ONLINE)
        assert member.demand(10, 15, pressures=0)
        serve(pool)
        member.arena.use(10)
        serve(pool)
        assert not member.demand(9, 12, pressures=0)
        assert member.status.target == 15
        assert member.demand(14, 20, pressures=1)
        serve(pool)
        assert member.granted == 14

    def test_a_falling_target_leaves_it_what_it_holds_until_it_gives_back(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.ONLINE)
        member.demand(10)
        serve(pool)
        member.arena.map(range(8))
        member.demand(5)
        serve(pool)
        assert (member.granted, member.status.owned, pool.status().free) == (5, 8, 2)
        member.arena.unmap([0])
        assert (member.status.owned, pool.status().free) == (7, 3)
        assert member.arena.map([0]) == 0
        member.demand(6)
        serve(pool)
        assert (member.granted, member.status.owned, pool.status().free) == (6, 7, 3)


class TestTaking:
    def test_grants_that_nobody_uses_are_moved_without_a_stop(self, make_pool, join):
        pool = make_pool(20, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE)
        pool.share(offline.number, 3, 100)
        offline.arena.want(20)
        serve(pool)
        assert offline.granted == 20
        offline.arena.map(range(5))
        online.demand(12)
        assert serve(pool) == 0
        assert (online.granted, offline.granted) == (12, 8)
        online.demand(18)
        assert serve(pool) == 3
        assert (online.granted, offline.granted, offline.status.taken) == (15, 5, 0)
        assert pool.status().reclaims == 0

    def test_a_request_is_kept_even_where_it_is_not_used(self, make_pool, join):
        pool = make_pool(10, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE)
        pool.share(offline.number, 4, 100)
        online.demand(10)
        assert serve(pool) == 4
        assert (online.granted, offline.granted) == (6, 4)
        assert serve(pool, stopped=True) == 4
        assert (online.granted, offline.granted) == (6, 4)

    def test_handles_are_taken_if_and_only_if_offline_work_stands_still(self, make_pool, join):
        pool = make_pool(20, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(20)
        online.demand(7)
        assert serve(pool) == 7
        assert (online.granted, offline.granted, offline.arena.taken) == (0, 20, 0)
        assert serve(pool, stopped=True) == 0
        assert (online.granted, offline.granted, offline.arena.taken) == (7, 13, 7)
        assert offline.lost() == list(range(13, 20))
        assert held_bytes(offline.admission) == 13 * BYTES
        assert online.arena.map(range(20)) == 7
        found = pool.status()
        assert (found.reclaims, found.handles_reclaimed, found.handles_for_engines, found.free) == (1, 7, 7, 0)
        assert serve(pool, stopped=True) == 0
        assert pool.status().reclaims == 1

    def test_nothing_below_a_request_is_taken(self, make_pool, join):
        pool = make_pool(10, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(10, request=4)
        online.demand(10)
        assert serve(pool, stopped=True) == 4
        assert (online.granted, offline.granted, offline.lost()) == (6, 4, [4, 5, 6, 7, 8, 9])

    def test_most_is_taken_from_who_has_most_above_its_request(self, make_pool, join):
        pool = make_pool(30, BYTES)
        online = join(pool, Kind.ONLINE)
        small = join(pool, Kind.OFFLINE).holds(6)
        large = join(pool, Kind.OFFLINE).holds(10, request=1)
        modest = join(pool, Kind.OFFLINE).holds(14, request=13)
        online.demand(6)
        assert serve(pool, stopped=True) == 0
        assert (small.lost(), large.lost(), modest.lost()) == ([4, 5], [6, 7, 8, 9], [])

    def test_many_are_taken_from_several_at_once(self, make_pool, join):
        pool = make_pool(200, BYTES)
        online = join(pool, Kind.ONLINE)
        members = [join(pool, Kind.OFFLINE).holds(100) for _ in range(2)]
        online.demand(100)
        assert serve(pool, stopped=True) == 0
        assert [member.lost() for member in members] == [list(range(50, 100))] * 2
        assert (online.granted, pool.status().handles_reclaimed) == (100, 100)

    def test_only_what_is_held_is_taken_by_hand(self, make_pool, join):
        pool = make_pool(20, BYTES)
        member = join(pool, Kind.OFFLINE)
        pool.grant(member.number, 12)
        member.arena.map([0, 2, 4, 6, 8])
        assert pool.reclaim(member.number, [4, 1, 0, 4, 99, 100, 2**32 - 1, 8]) == 3
        assert (member.granted, member.status.held, member.lost()) == (9, 2, [0, 4, 8])
        assert pool.reclaim(member.number, [0, 4, 8]) == 0
        assert pool.reclaim(member.number, []) == 0
        found = pool.status()
        assert (found.reclaims, found.handles_reclaimed, found.free) == (1, 3, 11)

    def test_a_grant_that_was_lowered_already_pays_for_what_is_taken(self, make_pool, join):
        pool = make_pool(20, BYTES)
        member = join(pool, Kind.OFFLINE)
        pool.grant(member.number, 10)
        member.arena.map(range(10))
        pool.grant(member.number, 6)
        assert pool.reclaim(member.number, [0, 1, 2]) == 3
        assert (member.granted, member.status.owned) == (6, 7)
        assert pool.reclaim(member.number, [3, 4, 5]) == 3
        assert (member.granted, member.status.owned) == (4, 4)


Chooser = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32,
                           ctypes.POINTER(ctypes.c_uint32))  # fmt: skip


class Candidate(ctypes.Structure):
    _fields_ = [
        ("member", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("most", ctypes.c_uint32),
        ("held", ctypes.POINTER(ctypes.c_uint8)),
    ]


class TestChooser:
    def choose(self, library, pool, picks, seen=None):
        """Has the pool take those (member, handle) instead of the highest."""

        def chooser(_, candidates, count, need, out):
            for i, candidate in enumerate((Candidate * count).from_address(candidates) if count else ()):
                if seen is not None:
                    seen.append((need, i, candidate.member, candidate.capacity, candidate.most,
                                 [h for h in range(candidate.capacity) if candidate.held[h]]))  # fmt: skip
            for i, (member, handle) in enumerate(picks[:need]):
                out[2 * i], out[2 * i + 1] = member, handle
            return len(picks)

        self.chooser = Chooser(chooser)
        library.rowen_pool_choose.argtypes = [ctypes.c_void_p, Chooser, ctypes.c_void_p]
        library.rowen_pool_choose(pool.handle, self.chooser, None)

    def test_it_is_shown_what_may_be_taken_and_is_obeyed(self, library, make_pool, join):
        pool = make_pool(12, BYTES)
        online = join(pool, Kind.ONLINE)
        join(pool, Kind.OFFLINE).holds(2, request=2)
        one, other = join(pool, Kind.OFFLINE).holds(6, request=1), join(pool, Kind.OFFLINE, 50)
        pool.share(other.number, 0, 50)
        other.arena.want(4)
        serve(pool)
        other.arena.map([7, 9, 49])
        seen = []
        self.choose(library, pool, [(other.number, 9), (one.number, 0), (one.number, 3)], seen)
        online.demand(4)
        assert serve(pool, stopped=True) == 0
        assert seen == [
            (3, 0, one.number, 100, 5, [0, 1, 2, 3, 4, 5]),
            (3, 1, other.number, 50, 3, [7, 9, 49]),
        ]
        assert (one.lost(), other.lost(), online.granted) == ([0, 3], [9], 4)

    def test_its_mistakes_are_passed_over(self, library, make_pool, join):
        pool = make_pool(12, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE, 12).holds(10, request=7)
        wrong = [(99, 0), (online.number, 0), (offline.number, 11), (offline.number, 12), (offline.number, 2**32 - 1)]
        right = [(offline.number, handle) for handle in (1, 1, 0, 5, 6)]
        self.choose(library, pool, wrong + right)
        online.demand(12)
        assert serve(pool, stopped=True) == 7
        assert (offline.lost(), offline.granted) == ([0, 1, 5], 7)

    def test_it_may_choose_none_and_be_dismissed(self, library, make_pool, join):
        pool = make_pool(4, BYTES)
        online, offline = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(4)
        self.choose(library, pool, [])
        online.demand(1)
        assert serve(pool, stopped=True) == 1
        library.rowen_pool_choose(pool.handle, Chooser(), None)
        assert serve(pool, stopped=True) == 0
        assert offline.lost() == [3]


class TestOffline:
    def test_it_gets_its_request_then_what_it_wants_up_to_its_limit(self, make_pool, join):
        pool = make_pool(100, BYTES)
        member = join(pool, Kind.OFFLINE)
        serve(pool)
        assert member.granted == 0
        pool.share(member.number, 5, 20)
        serve(pool)
        assert member.granted == 5
        for wanted, granted in ((12, 12), (30, 20), (7, 7), (0, 5)):
            member.arena.want(wanted)
            serve(pool)
            assert member.granted == granted

    def test_it_keeps_what_it_holds_whatever_it_wants(self, make_pool, join):
        pool = make_pool(100, BYTES)
        member = join(pool, Kind.OFFLINE).holds(10)
        member.arena.want(0)
        serve(pool)
        assert member.granted == 10
        member.arena.unmap([0])
        serve(pool)
        assert member.granted == 9

    def test_online_targets_come_first(self, make_pool, join):
        pool = make_pool(10, BYTES)
        offline, online = join(pool, Kind.OFFLINE), join(pool, Kind.ONLINE)
        pool.share(offline.number, 1, 100)
        offline.arena.want(100)
        online.demand(7)
        serve(pool)
        assert (online.granted, offline.granted) == (7, 3)

    @pytest.mark.parametrize(
        ("wants", "grants"), [((40, 40), (15, 15)), ((4, 40), (4, 26)), ((10, 9), (10, 9)), ((1, 40), (1, 29))]
    )
    def test_what_is_left_is_shared_equally_among_those_who_want_it(self, make_pool, join, wants, grants):
        pool = make_pool(30, BYTES)
        members = [join(pool, Kind.OFFLINE) for _ in wants]
        for member, wanted in zip(members, wants, strict=True):
            pool.share(member.number, 0, 100)
            member.arena.want(wanted)
        serve(pool)
        assert tuple(member.granted for member in members) == grants

    def test_one_handle_goes_to_one(self, make_pool, join):
        pool = make_pool(1, BYTES)
        members = [join(pool, Kind.OFFLINE) for _ in range(3)]
        for member in members:
            pool.share(member.number, 0, 100)
            member.arena.want(5)
        serve(pool)
        assert [member.granted for member in members] == [1, 0, 0]

    def test_who_has_most_gives_back_what_another_was_promised(self, make_pool, join):
        pool = make_pool(20, BYTES)
        poor, rich = join(pool, Kind.OFFLINE).holds(8), join(pool, Kind.OFFLINE).holds(12, request=2)
        late = join(pool, Kind.OFFLINE)
        pool.share(late.number, 3, 100)
        for _ in range(3):
            serve(pool)
            assert (poor.granted, rich.granted, late.granted, rich.arena.taken) == (8, 9, 0, 0)
        rich.arena.unmap([0])
        serve(pool)
        assert (rich.granted, late.granted, pool.status().free) == (9, 1, 0)
        rich.arena.unmap([1, 2])
        serve(pool)
        assert (poor.granted, rich.granted, late.granted) == (8, 9, 3)

    def test_grants_that_nobody_uses_go_to_a_promise_at_once(self, make_pool, join):
        pool = make_pool(20, BYTES)
        rich, late = join(pool, Kind.OFFLINE), join(pool, Kind.OFFLINE)
        pool.share(rich.number, 0, 100)
        rich.arena.want(20)
        serve(pool)
        rich.arena.map(range(16))
        pool.share(late.number, 4, 100)
        serve(pool)
        assert (rich.granted, late.granted) == (16, 4)

    def test_a_promise_that_all_others_need_waits(self, make_pool, join):
        pool = make_pool(10, BYTES)
        one, late = join(pool, Kind.OFFLINE).holds(10, request=10), join(pool, Kind.OFFLINE)
        pool.share(late.number, 5, 5)
        for _ in range(2):
            serve(pool)
            assert (one.granted, late.granted) == (10, 0)

    def test_who_does_not_give_back_in_time_is_stubborn(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.OFFLINE).holds(10)
        pool.share(member.number, 0, 7)
        now = 100.0
        serve(pool, now)
        assert (member.granted, member.status.stubborn) == (7, 0)
        serve(pool, now + RETURN_SECONDS - 1e-6)
        assert member.status.stubborn == 0
        serve(pool, now + RETURN_SECONDS)
        assert member.status.stubborn == 3
        member.arena.unmap([0, 1])
        assert member.status.stubborn == 1
        member.arena.unmap([2])
        serve(pool, now + RETURN_SECONDS)
        pool.share(member.number, 0, 6)
        serve(pool, now + RETURN_SECONDS)
        serve(pool, now + 2 * RETURN_SECONDS - 1e-6)
        assert (member.granted, member.status.stubborn) == (6, 0)

    def test_time_behind_the_gate_is_not_counted(self, make_pool, join):
        pool = make_pool(10, BYTES)
        online, member = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(5)
        online.demand(5)
        serve(pool, 100.0)
        online.arena.map(range(5))
        online.demand(1)
        pool.share(member.number, 0, 1)
        serve(pool, 100.0)
        serve(pool, 106.0, stopped=True)
        serve(pool, 112.0, stopped=True)
        serve(pool, 118.0)
        assert (online.status.stubborn, member.status.stubborn) == (4, 0)
        serve(pool, 127.0)
        assert member.status.stubborn == 0
        serve(pool, 128.0)
        assert member.status.stubborn == 4


class TestWhatIsReallyHeld:
    def late(self, member, *handles):
        """What a thread inside the kernel does after its process was stopped, or an evil one at any time."""
        for handle in handles:
            os.pwrite(member.admission.memory, b"late", handle * BYTES)

    def test_it_is_rounded_up(self, make_pool):
        pool = make_pool(10, 4 * BYTES)
        admission = admit(pool, 10, 4)
        for pages, handles in ((1, 1), (4, 1), (5, 2), (8, 2), (9, 3)):
            os.posix_fallocate(admission.memory, 0, pages * BYTES)
            assert pool.status().of(admission.number).really_held == handles

    def test_what_is_held_beyond_every_grant_is_no_ones(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.OFFLINE).holds(4)
        self.late(member, *range(20, 23))
        found = member.status
        assert (found.really_held, found.owned, found.overdrawn, pool.status().free) == (7, 7, 3, 3)
        self.late(member, *range(30, 60))
        assert (member.status.overdrawn, pool.status().free) == (33, 0)

    def test_who_keeps_what_it_says_that_it_has_given_back_is_stubborn(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.OFFLINE).holds(6)
        self.late(member, *range(6))
        size = os.fstat(member.admission.arena).st_size - 4 * 100
        with mmap.mmap(member.admission.arena, 0) as page:
            page[size:] = bytes(4 * 100)
        pool.share(member.number, 0, 1)
        serve(pool, 100.0)
        serve(pool, 100.0 + RETURN_SECONDS)
        found = member.status
        assert (found.held, found.granted, found.really_held, found.stubborn) == (0, 1, 6, 5)

    def test_the_fixed_part_lacks_it_whatever_its_owner_says(self, make_pool, join, library):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.OFFLINE)
        self.late(member, *range(10))
        pool.fix(4)
        serve(pool)
        library.rowen_pool_lacks.restype = ctypes.c_bool
        lacks = lambda: library.rowen_pool_lacks(ctypes.c_void_p(pool.handle))  # noqa: E731
        assert (member.status.held, lacks()) == (0, True)
        serve(pool, stopped=True)
        assert (pool.status().fixed, lacks()) == (4, False)

    def test_it_is_freed_when_it_is_needed(self, make_pool, join):
        pool = make_pool(10, BYTES)
        online, member = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(4)
        self.late(member, *range(20, 26))
        online.demand(5)
        assert serve(pool) == 5
        assert serve(pool, stopped=True) == 0
        assert (online.granted, member.granted, member.status.overdrawn, member.arena.taken) == (5, 4, 0, 0)
        assert bytes(member.arena.buffer[:4]) == bytes(4)

    def test_settling_frees_taken_handles_once_more_and_leaves_the_others(self, make_pool, join):
        pool = make_pool(10, BYTES)
        member = join(pool, Kind.OFFLINE).holds(6)
        member.arena.buffer[0] = member.arena.buffer[5 * BYTES] = 7
        pool.reclaim(member.number, [2, 3])
        self.late(member, 2, 9)
        assert (member.status.really_held, pool.status().free) == (6, 4)
        pool.settle()
        assert (member.status.really_held, pool.status().free) == (4, 6)
        assert (member.arena.buffer[0], member.arena.buffer[5 * BYTES]) == (7, 7)
        self.late(member, 2)
        pool.settle()
        assert member.status.really_held == 5

    def test_a_page_that_came_late_does_not_hold_up_the_reclaim(self, make_pool, join):
        pool = make_pool(8, 4 * BYTES)
        online, member = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE).holds(8)
        member.arena.unmap([7])
        os.pwrite(member.admission.memory, b"late", 7 * 4 * BYTES)
        online.demand(5)
        assert serve(pool, stopped=True) == 0
        assert (online.granted, member.status.really_held) == (5, 3)


def test_any_thread_may_call(make_pool, join):
    pool = make_pool(1000, BYTES)
    online = join(pool, Kind.ONLINE)
    ended = threading.Event()
    failures = []

    def work(call):
        try:
            while not ended.is_set():
                call()
        except Exception as error:
            failures.append(error)

    def come_and_go():
        admission = pool.admit(Kind.OFFLINE, 100)
        pool.share(admission.number, 5, 100)
        os.posix_fallocate(admission.memory, 0, 50 * BYTES)
        pool.dismiss(admission.number)

    calls = [come_and_go, come_and_go, lambda: serve(pool), pool.status, pool.settle]
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for round_ in range(300):
        online.demand(round_ % 100)
    ended.set()
    for thread in threads:
        thread.join()
    assert failures == []
    online.demand(0)
    serve(pool)
    assert (pool.status().free, len(pool.status().members)) == (1000, 1)


def test_the_fixed_part_is_met_before_engines_and_out_of_what_offline_members_hold(make_pool, join):
    pool = make_pool(20, BYTES)
    engine, tenant = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE)
    tenant.holds(14)
    pool.fix(10)
    engine.demand(8)
    assert serve(pool) == 12
    found = pool.status()
    assert (found.fixed, engine.granted, found.free) == (6, 0, 0)
    assert serve(pool, stopped=True) == 0
    found = pool.status()
    assert (found.fixed, engine.granted, found.free, found.handles_reclaimed) == (10, 8, 0, 12)
    assert (found.reclaims, found.handles_for_engines) == (1, 8)
    assert len(tenant.lost()) == 12
    pool.fix(3)
    assert (pool.status().fixed, pool.status().free) == (3, 7)
    pool.fix(1000)
    serve(pool, stopped=True)
    assert pool.status().fixed == 12


def test_what_is_taken_for_the_fixed_part_alone_is_not_for_engines(make_pool, join):
    pool = make_pool(20, BYTES)
    tenant = join(pool, Kind.OFFLINE).holds(20)
    pool.fix(5)
    serve(pool, stopped=True)
    found = pool.status()
    assert (found.fixed, found.handles_reclaimed, found.handles_for_engines) == (5, 5, 0)
    assert tenant.lost() == [15, 16, 17, 18, 19]


def test_an_engine_owns_no_more_than_its_bound_whatever_it_wants(make_pool, join):
    pool = make_pool(20, BYTES)
    engine, tenant = join(pool, Kind.ONLINE), join(pool, Kind.OFFLINE)
    pool.bound(engine.number, 5)
    engine.arena.want(12)
    assert serve(pool) == 0
    assert (engine.granted, engine.status.bound, engine.status.capacity) == (5, 5, 100)
    engine.demand(9, growth=11)
    engine.arena.use(5)
    assert serve(pool) == 0
    assert engine.granted == 5
    pool.bound(engine.number, 2)
    serve(pool)
    assert (engine.granted, engine.status.target) == (2, 2)
    for member, bound in ((engine.number, 101), (tenant.number, 1)):
        with pytest.raises(ValueError):
            pool.bound(member, bound)
    with pytest.raises(KeyError):
        pool.bound(99, 1)
