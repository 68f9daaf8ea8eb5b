"""How much CPU time a stopped pod may use, and how it comes in again."""

import ctypes
from typing import Any

import pytest

from rowen.node_agent.native import library_path

MS = 1_000_000
MOST = 100 * MS


class Allowance(ctypes.Structure):
    """`struct rowen_allowance`."""

    _fields_ = [("left_ns", ctypes.c_uint64), ("used_ns", ctypes.c_uint64)]


@pytest.fixture
def library() -> Any:
    found = ctypes.CDLL(str(library_path()))
    found.rowen_allowance_spend.argtypes = [ctypes.POINTER(Allowance), *[ctypes.c_uint64] * 3]
    found.rowen_allowance_spend.restype = ctypes.c_bool
    return found


def spends(library: Any, allowance: Allowance, passed: int, used: int) -> bool:
    """Whether it may, with milliseconds that have passed and that were used since."""
    counter = allowance.used_ns + used * MS
    may: bool = library.rowen_allowance_spend(ctypes.byref(allowance), MOST, passed * MS, counter)
    assert allowance.used_ns == counter
    return may


def test_some_is_there_at_once(library: Any) -> None:
    assert spends(library, Allowance(20 * MS, 7), 0, 20)
    assert not spends(library, Allowance(20 * MS, 7), 0, 21)
    assert spends(library, Allowance(20 * MS, 7), 20, 21)


def test_a_twentieth_of_the_time_may_be_used_for_ever(library: Any) -> None:
    allowance = Allowance(0, 0)
    assert all(spends(library, allowance, 100, 5) for _ in range(1000))
    assert not spends(library, allowance, 100, 6)


def test_a_long_rest_is_worth_no_more_than_a_short_one(library: Any) -> None:
    allowance = Allowance(20 * MS, 0)
    for _ in range(6000):
        assert spends(library, allowance, 100, 0)
    assert allowance.left_ns == MOST
    assert not spends(library, allowance, 20, 102)


def test_a_late_look_accuses_nobody(library: Any) -> None:
    """The machine stood for a minute; who kept to a twentieth has done nothing."""
    assert spends(library, Allowance(20 * MS, 0), 60_000, 3_000)
    assert not spends(library, Allowance(20 * MS, 0), 60_000, 3_021)


def test_who_was_given_more_keeps_it_until_it_is_used(library: Any) -> None:
    allowance = Allowance(500 * MS, 0)
    assert spends(library, allowance, 1000, 0)
    assert spends(library, allowance, 0, 350)
    assert (allowance.left_ns, spends(library, allowance, 0, 151)) == (150 * MS, False)


def test_nothing_is_owed_by_who_was_stopped_for_it(library: Any) -> None:
    allowance = Allowance(20 * MS, 0)
    assert not spends(library, allowance, 0, 5000)
    assert spends(library, allowance, 100, 5)


def test_a_counter_that_runs_backwards_is_not_used_time(library: Any) -> None:
    allowance = Allowance(20 * MS, 5000 * MS)
    assert spends(library, allowance, 0, -1)
    assert allowance.left_ns == 20 * MS
