"""Whose a device's memory was, from made-up readings."""

import math

import pytest
from pools import MIB, owners, reading

from rowen.demo.verdict.memory import (
    MemorySummary,
    Reclaimed,
    bytes_of,
    parse_reclaimed,
    pool_bytes,
    stack,
    summarize,
    taken,
    within,
)

METRICS = """\
# HELP rowen_memory_bytes Whose a device's memory is
# TYPE rowen_memory_bytes gauge
rowen_memory_bytes{device="cpu1",node="n",owner="offline"} 1.048576e+06
# TYPE rowen_reclaims_total counter
rowen_reclaims_total{device="cpu1",node="n"} 3.0
rowen_reclaims_total{device="cpu2",node="n"} 0.0
# TYPE rowen_reclaims_created gauge
rowen_reclaims_created{device="cpu1",node="n"} 1.7e+09
# TYPE rowen_reclaimed_bytes_total counter
rowen_reclaimed_bytes_total{device="cpu1",node="n"} 7.340032e+06
"""


def test_what_was_taken_is_read_from_the_agents_metrics():
    assert parse_reclaimed(METRICS) == {"cpu1": Reclaimed(3, 7 * MIB), "cpu2": Reclaimed(0, 0)}


def test_an_agent_without_a_pool_has_taken_nothing():
    assert parse_reclaimed('# TYPE rowen_idle_seconds_total counter\nrowen_idle_seconds_total{device="d"} 1\n') == {}


def test_what_pods_have_for_themselves_is_no_part_of_the_pool():
    given = owners(used=1, ahead=2, offline=3, free=4)
    assert given.fixed_bytes > 0
    assert pool_bytes(given) == 10 * MIB
    assert bytes_of(given, "online_ahead") == 2 * MIB


def test_a_reading_holds_for_the_time_after_it():
    readings = [reading(at) for at in (80.0, 95.0, 99.0, 101.0, 120.0, 121.0)]
    assert [each.at for each in within(readings, 100.0, 120.0)] == [99.0, 101.0, 120.0]


def test_a_reading_of_long_ago_says_nothing():
    assert within([reading(80.0)], 100.0, 120.0) == []


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([0, 0, 2, 2, 3], [(2.0, Reclaimed(2, 2 * MIB)), (4.0, Reclaimed(1, MIB))]),
        ([5, 5], []),
        ([9, 1], [(1.0, Reclaimed(1, MIB))]),
        ([9, 0, 9], [(2.0, Reclaimed(9, 9 * MIB))]),
        ([], []),
    ],
)
def test_what_was_taken_between_two_readings(counts, found):
    """An agent that was started again counts from 0."""
    assert taken(reading(float(at), reclaims=count) for at, count in enumerate(counts)) == found


def test_the_stretch_in_figures():
    readings = [
        reading(90.0, used=9, ahead=9, offline=99),
        reading(100.0, used=1, ahead=3, offline=8, reclaims=1),
        reading(101.0, used=4, ahead=4, offline=4, reclaims=3),
        reading(102.0, used=2, ahead=5, offline=5, reclaims=3),
        reading(130.0, used=9, ahead=9, offline=99, reclaims=9),
    ]
    found = summarize(readings, 100.0, 110.0)
    assert found == MemorySummary(
        online_used_max=4 * MIB, online_max=8 * MIB, offline_max=8 * MIB, reclaims=2, reclaimed=2 * MIB
    )
    assert summarize([], 100.0, 110.0) is None


def test_the_parts_are_stacked_over_the_stretch():
    drawn = stack([reading(99.5, used=1, ahead=2), reading(105.0, used=3), reading(106.0, used=5)], 100.0, 110.0)
    assert drawn.seconds == [0.0, 5.0, 6.0, 10.0]
    assert drawn.mebibytes["online_used"] == [1.0, 3.0, 5.0, 5.0]
    assert drawn.mebibytes["online_ahead"] == [2.0, 0.0, 0.0, 0.0]


def test_a_time_without_readings_is_left_open():
    drawn = stack([reading(100.0, used=1), reading(130.0, used=2)], 100.0, 132.0)
    assert drawn.seconds == [0.0, 1.0, 30.0, 32.0]
    first, gap, *rest = drawn.mebibytes["online_used"]
    assert (first, rest) == (1.0, [2.0, 2.0])
    assert math.isnan(gap)


def test_nothing_is_stacked_without_readings():
    assert stack([], 100.0, 110.0).seconds == []
