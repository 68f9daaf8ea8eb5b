"""What a pool takes from several members, each with a ledger. Members are arenas of this process."""

import ctypes
import mmap
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from descriptors import open_descriptors
from memory.members import quarantine

from rowen.node_agent.memory.ledgers import OWNERS, Ledgers
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.runtime.memory.ledger import NativeLedger
from rowen.runtime.memory.native_arena import NativeArena

BYTES = mmap.PAGESIZE
HANDLES, CAPACITY, LARGEST = 100, 60, 32768
USED_AT = 64
"""Where a ledger says how many of its chunks are in use (ledger_abi.h)."""


class Member:
    """An offline member that holds the first handles."""

    def __init__(self, library: ctypes.CDLL, pool: Pool, ledgers: Ledgers | None, held: int, request: int) -> None:
        self._library = library
        admission = pool.admit(Kind.OFFLINE, CAPACITY)
        self.number = admission.number
        self.arena = NativeArena(library, admission.arena, admission.memory)
        if ledgers:
            self.descriptor = ledgers.admit(self.number, CAPACITY)
            self.ledger = NativeLedger(library, self.descriptor)
        pool.share(self.number, request, CAPACITY)
        self.arena.want(held)
        pool.serve(0.0, offline_stopped=False)
        assert self.arena.map(range(held)) == held

    def note(self, owner: str, tokens: int, handles: range | list[int]) -> None:
        self.ledger.charge({owner: tokens})
        self.ledger.add(owner, handles)

    def lost(self) -> list[int]:
        assert quarantine(self._library, self.arena) == 0
        return sorted(self.arena.lost())


@pytest.fixture
def after_the_pool() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def pool(after_the_pool: ExitStack, make_pool: Callable[..., Pool]) -> Pool:
    return make_pool(HANDLES, BYTES)


@pytest.fixture
def ledgers(pool: Pool, after_the_pool: ExitStack) -> Ledgers:
    found = Ledgers(pool)
    after_the_pool.callback(found.close)
    return found


@pytest.fixture
def member(library: ctypes.CDLL, pool: Pool, ledgers: Ledgers) -> Callable[..., Member]:
    """Makes a member that holds so many handles."""

    def make(held: int, *, request: int = 0, ledger: bool = True) -> Member:
        return Member(library, pool, ledgers if ledger else None, held, request)

    return make


@pytest.fixture
def take(pool: Pool) -> Callable[[int], int]:
    """Has an engine lack so many handles; returns how many it still lacks then."""
    pool.serve(0.0, offline_stopped=False)
    engine = pool.admit(Kind.ONLINE, HANDLES).number

    def take(handles: int) -> int:
        status = pool.status()
        target = status.of(engine).owned + status.free + handles
        pool.demand(engine, pressures=0, target=target, growth=0, threshold=1.0)
        return pool.serve(0.0, offline_stopped=True)

    return take


def test_the_request_that_loses_least_loses_its_handles(member, take):
    one = member(60)
    one.note("long", 900, range(40))
    one.note("short", 200, range(40, 60))
    assert take(15) == 0
    assert one.lost() == list(range(45, 60))
    # Its other handles are worth nothing now.
    assert take(5) == 0
    assert one.lost() == list(range(40, 45))


def test_what_nobody_has_something_in_goes_first_whosever_it_is(member, take):
    one, other = member(40), member(40)
    one.note("a", 1, range(35))
    other.note("b", 1000, [*range(30), *range(32, 40)])
    assert take(7) == 0
    assert (one.lost(), other.lost()) == ([35, 36, 37, 38, 39], [30, 31])


def test_the_rest_comes_from_the_member_that_loses_the_fewest_tokens_for_each(member, take):
    one, other = member(40), member(40)
    # 10 tokens a handle against 9.
    one.note("a", 100, range(10))
    one.note("b", 300, range(10, 40))
    other.note("c", 90, range(10))
    other.note("d", 270, range(10, 40))
    assert take(10) == 0
    assert (one.lost(), other.lost()) == ([], list(range(10)))
    # Of the other one only dearer handles are left for so many.
    assert take(35) == 0
    assert (len(one.lost()), other.lost()) == (5, list(range(10, 40)))


def test_what_was_lost_is_counted(member, take, ledgers):
    one, other = member(30), member(30)
    one.note("a", 100, range(30))
    other.note("b", 700, range(30))
    assert ledgers.tokens() == 0
    assert take(30) == 0
    assert ledgers.tokens() == 100
    assert take(3) == 0
    assert ledgers.tokens() == 800


def test_a_lie_is_counted_up_to_a_bound(member, take, ledgers):
    hostile = member(50)
    hostile.note("c", 2**32 - 1, range(25))
    hostile.note("d", 2**32 - 1, range(25, 50))
    assert take(50) == 0
    assert ledgers.tokens() == 2**32 - 1


def test_a_member_keeps_its_request(member, take):
    one, other = member(40, request=38), member(40)
    other.note("c", 1000, range(40))
    assert take(5) == 0
    assert (one.lost(), other.lost()) == ([38, 39], [37, 38, 39])


def test_what_is_not_known_goes_after_what_is(member, take):
    one, other = member(30), member(30)
    for number in range(OWNERS):
        one.note(f"small {number}", 1, [0])
    one.note("too many", 1, range(30))
    other.note("large", 2**32 - 1, range(30))
    assert take(10) == 0
    assert (one.lost(), other.lost()) == ([], list(range(20, 30)))


def test_a_member_without_a_ledger_goes_last(member, take):
    one, other = member(30, ledger=False), member(30)
    other.note("a", 10**9, range(30))
    assert take(40) == 0
    assert (one.lost(), other.lost()) == (list(range(20, 30)), list(range(30)))


def test_a_member_without_a_ledger_alone_gives_its_highest_handles(member, take):
    one = member(30, ledger=False)
    assert take(4) == 0
    assert one.lost() == [26, 27, 28, 29]


def test_handles_that_it_does_not_hold_are_not_chosen(member, take):
    one = member(30)
    one.note("a", 50, range(30))
    one.arena.unmap([3, 29])
    # Two of them were granted and not held.
    assert take(4) == 0
    assert one.lost() == [27, 28]


def test_any_content_of_a_ledger_gives_as_much(member, take):
    source = random.Random(1)
    one, other = member(45), member(45)
    for _ in range(8):
        for each in (one, other):
            size = os.fstat(each.descriptor).st_size
            os.pwrite(each.descriptor, source.randbytes(size), 0)
        assert take(5) == 0
        assert len(one.lost()) + len(other.lost()) == 5


class Candidate(ctypes.Structure):
    """`struct rowen_candidate`: a member that holds handle 0 alone."""

    _fields_ = [
        ("member", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("most", ctypes.c_uint32),
        ("held", ctypes.c_char_p),
    ]


@pytest.mark.parametrize(("crowd", "in_turn"), [(3, True), (4, False)])
def test_ledgers_that_take_long_to_read_are_not_all_read(library, ledgers, crowd, in_turn):
    numbers = range(1, crowd + 2)
    for number in numbers:
        descriptor = ledgers.admit(number, LARGEST)
        if number == crowd + 1:
            continue
        ledger = NativeLedger(library, descriptor)
        ledger.charge({"a": 10})
        ledger.add("a", [0])
        # All chunks count as used: together with the handles, over half a million places to look at.
        os.pwrite(descriptor, b"\xff" * 4, USED_AT)
    held = b"\1" + bytes(LARGEST - 1)
    candidates = (Candidate * len(numbers))(*(Candidate(number, LARGEST, 1, held) for number in numbers))
    picks = (ctypes.c_uint32 * 2)()
    context = ctypes.c_void_p(ledgers._ledgers)
    assert library.rowen_choose_cheapest(context, candidates, len(numbers), 1, picks) == 1
    # The last one's handle costs nothing, if anybody looks.
    assert picks[0] == (crowd + 1 if in_turn else 1)
    assert picks[1] == 0


def test_a_member_has_one_ledger_until_it_is_gone(pool, ledgers):
    number = pool.admit(Kind.OFFLINE, CAPACITY).number
    first = ledgers.admit(number, CAPACITY)
    assert os.fstat(first).st_size > 0
    with pytest.raises(ValueError, match=f"member {number} has a ledger already"):
        ledgers.admit(number, CAPACITY)
    ledgers.dismiss(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)
    with pytest.raises(KeyError):
        ledgers.dismiss(number)
    ledgers.admit(number, CAPACITY)


def test_ledgers_are_found_after_others_have_gone(member, ledgers, take):
    members = [member(20) for _ in range(3)]
    for one in members:
        one.note("a", 7, range(5, 20))
    ledgers.dismiss(members[0].number)
    assert take(10) == 0
    assert [one.lost() for one in members] == [[], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("capacity", [0, 2**20 + 1])
def test_a_capacity_that_cannot_be_is_refused(ledgers, capacity):
    with pytest.raises(ValueError, match="member 1 has a capacity that no ledger can have"):
        ledgers.admit(1, capacity)


def test_the_next_agent_goes_on_with_a_ledger(library, make_pool, member, ledgers):
    one = member(30)
    one.note("a", 50, range(10, 30))
    descriptor = os.dup(one.descriptor)
    ledgers.close()
    following = Ledgers(make_pool(HANDLES, BYTES))
    following.adopt(7, CAPACITY, descriptor)
    os.close(descriptor)
    one.note("b", 20, [3])
    held = b"\1" * CAPACITY
    candidates = (Candidate * 1)(Candidate(7, CAPACITY, CAPACITY, held))
    picks = (ctypes.c_uint32 * (2 * CAPACITY))()
    assert library.rowen_choose_cheapest(ctypes.c_void_p(following._ledgers), candidates, 1, 40, picks) == 40
    assert set(picks[1:80:2]) == {*range(10), *range(30, 60)}
    following.close()


def test_what_is_no_ledger_of_that_shape_is_not_adopted(ledgers):
    first = ledgers.admit(1, CAPACITY)
    with pytest.raises(ValueError, match="member 1 has a ledger already"):
        ledgers.adopt(1, CAPACITY, first)
    with pytest.raises(OSError, match="no ledger for member 2: Protocol error"):
        ledgers.adopt(2, LARGEST, first)
    with pytest.raises(OSError, match="no ledger for member 2: Bad file descriptor"):
        ledgers.adopt(2, CAPACITY, -1)
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(ValueError, match="already"):
            ledgers.adopt(1, CAPACITY, first)
        with pytest.raises(ValueError, match="already"):
            ledgers.admit(1, CAPACITY)
    assert open_descriptors() == before


def test_there_are_as_many_ledgers_as_members(ledgers):
    for number in range(256):
        ledgers.admit(number + 1, 1)
    with pytest.raises(OSError, match="no ledger for member 257"):
        ledgers.admit(257, 1)
    ledgers.dismiss(1)
    ledgers.admit(257, 1)
