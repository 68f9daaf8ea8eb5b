import pytest

from rowen.runtime.coserve.planning.slowdown import Slowdowns

WHOLE_QUOTA = [10 / (10 - tenths) for tenths in range(10)]
"""Offline work takes all that it may have from the engine's core."""


def taught(**factors: float) -> Slowdowns:
    """`t3=1.2`: four steps beside three tenths took 1.2 times as long as alone."""
    found = Slowdowns()
    for name, factor in factors.items():
        teach(found, int(name[1:]), factor)
    return found


def teach(slowdowns: Slowdowns, tenths: int, factor: float, times: int = 4) -> None:
    for _ in range(times):
        slowdowns.observe(tenths, factor)


def test_unmeasured_offline_work_takes_its_whole_quota() -> None:
    found = Slowdowns()
    assert found.factors == pytest.approx(WHOLE_QUOTA)
    assert (found.largest, found.version) == (0, 0)


def test_a_factor_is_known_from_the_fourth_observation() -> None:
    found = Slowdowns()
    teach(found, 2, 1.05, times=3)
    assert (found.factors[2], found.largest, found.version) == (pytest.approx(1.25), 0, 0)
    found.observe(2, 1.05)
    assert (found.factors[2], found.largest, found.version) == (pytest.approx(1.05), 2, 1)


def test_larger_shares_are_taken_for_as_much_worse_as_their_quota_is_larger() -> None:
    factors = taught(t2=1.2, t4=1.5).factors
    assert factors[3] == pytest.approx(1.2 * 8 / 7)
    assert factors[5:] == pytest.approx([1.5 * 6 / (10 - tenths) for tenths in range(5, 10)])


def test_smaller_ones_are_no_worse_than_what_is_known_of_larger_ones() -> None:
    factors = taught(t6=1.3).factors
    assert factors[1:7] == pytest.approx([10 / 9, 1.25, 1.3, 1.3, 1.3, 1.3])
    assert factors[7] == pytest.approx(1.3 * 4 / 3)


def test_the_least_of_the_larger_ones_counts() -> None:
    assert taught(t5=1.6, t6=1.1).factors[3:5] == pytest.approx([1.1, 1.1])
    assert taught(t6=1.1, t5=1.6).factors[4:7] == pytest.approx([1.1, 1.6, 1.6])


def test_a_share_that_is_known_stands_for_itself_whatever_a_larger_one_says() -> None:
    factors = taught(t3=1.4, t5=1.2).factors
    assert factors[3:7] == pytest.approx([1.4, 1.4, 1.4, 1.4 * 5 / 4])


def test_nothing_becomes_faster_beside_offline_work() -> None:
    factors = taught(t1=0.9, t4=0.8).factors
    assert factors[:5] == [1.0, 1.0, 1.0, 1.0, 1.0]
    assert factors[5] == pytest.approx(6 / 5)


@pytest.mark.parametrize(
    ("factor", "tenths"),
    [(0.5, 0), (1.0, 0), (1.11, 0), (10 / 9, 1), (1.9, 4), (2.0, 5), (9.9, 8), (10.0, 9), (99.0, 9)],
)
def test_the_largest_share_with_a_factor(factor: float, tenths: int) -> None:
    assert Slowdowns().most(factor) == tenths


def test_of_shares_that_are_alike_the_largest() -> None:
    assert taught(t1=0.9, t2=0.9, t3=0.9).most(1.0) == 3


def test_small_moves_are_none() -> None:
    found = taught(t1=1.0)
    before = found.version
    teach(found, 1, 1.009)
    assert (found.version, found.factors[1]) == (before, 1.0)
    teach(found, 1, 1.03, times=30)
    assert found.version > before
    assert found.factors[1] == pytest.approx(1.03, abs=0.01)


def test_each_version_has_moved_by_more_than_a_hundredth() -> None:
    found = taught(t1=2.0)
    last, version = found.factors[1], found.version
    for _ in range(40):
        found.observe(1, 2.2)
        if found.version != version:
            assert abs(found.factors[1] - last) > 0.01 * last
            last, version = found.factors[1], found.version
    assert found.factors[1] == pytest.approx(2.2, rel=0.02)


def test_other_offline_work_makes_what_was_known_of_other_shares_worthless() -> None:
    found = taught(t1=1.0, t2=1.0, t3=1.0, t4=1.0)
    teach(found, 3, 2.0, times=2)
    assert found.largest == 4
    found.observe(3, 2.0)
    assert found.largest == 3
    assert found.factors[1:5] == pytest.approx([10 / 9, 1.25, 2.0, 2.0 * 7 / 6])
    # From the beginning: it takes four again.
    teach(found, 4, 2.1, times=3)
    assert found.largest == 3
    found.observe(4, 2.1)
    assert (found.largest, found.factors[4]) == (4, pytest.approx(2.1))


def test_what_is_known_of_larger_shares_can_be_forgotten() -> None:
    found = taught(t1=1.3, t2=9.0, t3=9.0)
    before = found.version
    found.forget_above(1)
    assert (found.largest, found.version) == (1, before + 1)
    assert found.factors[1:4] == pytest.approx([1.3, 1.3 * 9 / 8, 1.3 * 9 / 7])
    teach(found, 2, 1.35, times=3)
    assert found.largest == 1
    found.observe(2, 1.35)
    assert (found.largest, found.factors[2]) == (2, pytest.approx(1.35))


def test_nothing_to_forget_changes_nothing() -> None:
    found = taught(t1=1.3)
    before = found.version
    found.observe(2, 5.0)
    found.forget_above(1)
    assert (found.largest, found.version) == (1, before)
    found.forget_above(0)
    assert (found.largest, found.factors) == (0, pytest.approx(WHOLE_QUOTA))
