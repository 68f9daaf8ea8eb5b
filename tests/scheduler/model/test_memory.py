"""What memory that comes and goes is worth: values by hand, and what holds of every trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.scheduler.model.memory import (
    MemoryCurve,
    MemoryNeed,
    linear_need,
    memory_doubt,
    memory_factor,
    memory_factors,
)
from rowen.scheduler.model.workload import memory_need

BENT = MemoryCurve(((0.0, 0.2), (100.0, 0.8), (200.0, 1.0)))


@pytest.mark.parametrize(
    ("available", "loss", "factor"),
    [
        ((100,), 0.0, 1.0),
        ((0,), 0.0, 0.0),
        ((50, 150), 0.0, 0.75),
        # Half of the time half of it is missing: a mean shortfall of a quarter, times 0.5.
        ((50, 150), 0.5, 0.625),
        ((0, 0, 0, 100), 1.0, 0.0),
        ((20, 40, 60, 100), 0.2, 0.55 - 0.2 * 0.45),
    ],
)
def test_the_factor_is_the_curve_less_what_the_shortfall_costs(
    available: tuple[int, ...], loss: float, factor: float
) -> None:
    assert memory_factor(linear_need(100, loss), available) == pytest.approx(factor)


def test_a_curve_is_straight_between_its_points_and_level_beyond() -> None:
    assert BENT.at([-5, 0, 50, 100, 150, 200, 900]) == pytest.approx([0.2, 0.2, 0.5, 0.8, 0.9, 1.0, 1.0])


def test_no_pool_and_no_trace_cost_nothing() -> None:
    assert memory_factor(None, (0, 0)) == 1.0
    assert memory_factor(linear_need(100), ()) == 1.0


def test_a_share_of_the_memory_is_worth_less() -> None:
    assert memory_factor(linear_need(100), (60, 300), share=0.5) == pytest.approx((0.3 + 1.0) / 2)


def test_many_devices_are_as_each_one() -> None:
    rows = [[0, 50, 100, 200], [10, 10, 10, 10], [150, 150, 300, 300]]
    need = MemoryNeed(BENT, 150, 0.3)
    each = [memory_factor(need, row, share) for row, share in zip(rows, (1.0, 0.5, 0.25), strict=True)]
    assert memory_factors(need, np.array(rows), [1.0, 0.5, 0.25]) == pytest.approx(each)


def test_negative_memory_is_none() -> None:
    assert memory_factor(linear_need(100, 0.5), (-100, 100)) == memory_factor(linear_need(100, 0.5), (0, 100))


def test_what_is_not_known_of_the_curve_matters_where_memory_is_short() -> None:
    need = linear_need(100, doubt=0.5)
    assert memory_doubt(need, 1.0) == 0.0
    assert memory_doubt(need, 0.8) == pytest.approx(0.125)
    assert memory_doubt(need, 0.0) == 0.0
    assert memory_doubt(None, 0.5) == 0.0


def test_a_smaller_device_gives_all_that_it_has() -> None:
    need = MemoryNeed(BENT, 200, 0.4, 0.1).within(100)
    assert need.curve.points == ((0.0, pytest.approx(0.25)), (100.0, 1.0))
    assert (need.want_bytes, need.loss, need.doubt) == (100, 0.4, 0.1)
    assert MemoryNeed(BENT, 200).within(200) == MemoryNeed(BENT, 200)
    assert memory_factor(linear_need(100).within(50), (25, 75)) == pytest.approx(0.75)
    assert memory_factor(linear_need(100).within(-1), (25,)) == 0.0
    zeros = MemoryNeed(MemoryCurve(((10.0, 0.0), (100.0, 0.0))), 100)
    assert zeros.within(50).curve.points == ((50.0, 0.0),)
    assert memory_factor(zeros.within(50), (100,)) == 0.0


def test_a_job_that_would_lose_work_gets_nothing_where_the_device_has_nothing_to_lend() -> None:
    """A number, and not what a division by nothing gives."""
    assert memory_factor(linear_need(100, loss=0.5).within(0), (0, 0)) == 0.0
    assert memory_factor(MemoryNeed(BENT, 200, 0.5).within(0), (0, 0)) == 1.0


AMOUNTS = st.lists(st.integers(0, 300), min_size=1, max_size=32)
CURVES = st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1)), min_size=1, max_size=5).map(
    lambda points: MemoryCurve(
        tuple(zip(sorted(float(at) for at, _ in points), sorted(worth for _, worth in points), strict=True))
    )
)


@given(CURVES, st.integers(0, 300), st.floats(0, 5), AMOUNTS, st.data())
def test_more_memory_is_never_worth_less(
    curve: MemoryCurve, want: int, loss: float, available: list[int], data: st.DataObject
) -> None:
    more = [amount + data.draw(st.integers(0, 100)) for amount in available]
    need = MemoryNeed(curve, want, loss)
    less = memory_factor(need, available)
    assert 0.0 <= less <= memory_factor(need, more) + 1e-12 <= 1.0 + 2e-12
    assert memory_factor(need, available, 0.5) <= less + 1e-12


def spec(**fields: object) -> OfflineJobSpec:
    return OfflineJobSpec.from_wire({"template": {}, "memory": "1Gi", **fields})


def test_without_a_limit_there_is_nothing_to_take() -> None:
    assert memory_need(spec()) is None
    assert memory_need(spec(memoryLimit="1Gi")) is None


def test_a_job_brings_its_curve_in_any_order() -> None:
    points = [{"memory": "2Gi", "fraction": 0.8}, {"memory": "1Gi", "fraction": 0.2}]
    found = memory_need(spec(memoryLimit="4Gi", profile={"memoryCurve": points, "memoryLoss": 0.3}))
    assert found is not None
    assert found.curve.points == ((2.0**30, pytest.approx(0.25)), (2.0**31, 1.0))
    assert (found.want_bytes, found.loss, found.doubt) == (3 * 2**30, 0.3, 0.1)


def test_a_curve_ends_at_what_the_job_may_have() -> None:
    """Up to 8 GiB, of which it may have 2: with these it is as fast as alone, with half of them half as fast."""
    points = [{"memory": "1Gi", "fraction": 0.1}, {"memory": "2Gi", "fraction": 0.2}, {"memory": "8Gi", "fraction": 1}]
    found = memory_need(spec(memoryLimit="3Gi", profile={"memoryCurve": points}))
    assert found is not None
    assert found.want_bytes == 2**31
    assert [memory_factor(found, (gib * 2**30,)) for gib in (1, 2, 8)] == pytest.approx([0.5, 1.0, 1.0])


def test_a_curve_that_falls_is_raised_and_one_of_zeros_stays() -> None:
    points = [{"memory": "1Gi", "fraction": 0.5}, {"memory": "2Gi", "fraction": 0.1}]
    found = memory_need(spec(memoryLimit="4Gi", profile={"memoryCurve": points}))
    assert found is not None
    assert [worth for _, worth in found.curve.points] == [1.0, 1.0]
    zeros = memory_need(spec(memoryLimit="4Gi", profile={"memoryCurve": [{"memory": "1Gi", "fraction": 0}]}))
    assert memory_factor(zeros, (2**31,)) == 0.0


def test_what_is_assumed_of_a_kv_cache_and_of_tuning() -> None:
    batch = memory_need(spec(memoryLimit="3Gi"))
    assert batch == MemoryNeed(MemoryCurve(((0.0, 0.0), (2.0**31, 1.0))), 2**31, 0.0, 0.5)
    tune = {"baseModel": {"huggingFace": {"repo": "a/b", "revision": "c" * 40}}} | {
        name: {"claimName": "c", "path": name} for name in ("dataset", "output")
    }
    tuning = memory_need(OfflineJobSpec.from_wire({"fineTune": tune, "memory": "1Gi", "memoryLimit": "3Gi"}))
    assert tuning == MemoryNeed(MemoryCurve(((0.0, 0.5), (2.0**31, 1.0))), 2**31, 0.0, 0.5)
