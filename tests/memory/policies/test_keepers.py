"""When the pods of processes that keep memory are evicted."""

from itertools import pairwise

from memory.policies.statuses import BYTES, member, pool

from rowen.node_agent.memory.keepers import Keepers
from rowen.node_agent.memory.loans import Borrower
from rowen.node_agent.memory.pool_status import Kind
from rowen.node_agent.tries import FIRST_SECONDS, MOST_SECONDS

SLOTS = {1: Borrower(0, 11), 2: Borrower(0, 12), 3: Borrower(1, 13), 4: Borrower(None, 14)}


def due(keepers, now, **stubborn):
    members = [member(int(number[1:]), stubborn=kept) for number, kept in stubborn.items()]
    return keepers.due(pool(*members), SLOTS, now)


def test_processes_of_a_slot_are_one_keeper():
    assert due(Keepers(), 0.0, m1=2, m2=3, m3=0) == {0: 5 * BYTES}


def test_engines_and_processes_that_are_gone_are_none():
    status = pool(member(4, Kind.ONLINE, stubborn=3), member(9, stubborn=3))
    assert Keepers().due(status, SLOTS, 0.0) == {}


def test_who_still_keeps_memory_is_due_again_ever_more_seldom():
    keepers = Keepers()
    found = [now for now in range(2000) if due(keepers, float(now), m1=1)]
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert gaps[:5] == [FIRST_SECONDS * 2**i for i in range(5)]
    assert set(gaps[5:]) == {MOST_SECONDS}


def test_one_slot_does_not_wait_for_another():
    keepers = Keepers()
    assert due(keepers, 0.0, m1=1) == {0: BYTES}
    assert due(keepers, 1.0, m1=1, m3=1) == {1: BYTES}


def test_who_gave_back_and_keeps_memory_again_is_due_at_once():
    keepers = Keepers()
    for now in (0.0, 2.0):
        assert due(keepers, now, m1=1) == {0: BYTES}
        assert due(keepers, now + 1, m1=0) == {}
