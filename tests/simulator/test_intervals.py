"""Stretches of time, the gate and the wake rule, by hand."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.simulator.node.gate import COOLDOWN_CEILING_SECONDS, COOLDOWN_FLOOR_SECONDS, closed, cooldown_seconds
from rowen.simulator.node.intervals import Intervals, either, union

AGENT = Path(__file__).parents[2] / "node_agent" / "native" / "agent" / "agent.h"


def pairs(intervals: Intervals) -> list[tuple[float, float]]:
    return list(zip(intervals.begins.tolist(), intervals.ends.tolist(), strict=True))


def test_the_union_joins_what_overlaps_or_touches() -> None:
    found = union(np.array([5.0, 0.0, 1.0, 2.0]), np.array([6.0, 2.0, 1.5, 3.0]))
    assert pairs(found) == [(0.0, 3.0), (5.0, 6.0)]


def test_a_long_stretch_hides_those_within_it() -> None:
    found = union(np.array([0.0, 1.0, 9.5, 11.0]), np.array([10.0, 2.0, 9.7, 12.0]))
    assert pairs(found) == [(0.0, 10.0), (11.0, 12.0)]


def test_covered_time_is_exact_at_any_edge() -> None:
    found = union(np.array([1.0, 4.0]), np.array([2.0, 7.0]))
    assert found.covered(np.array([0.0, 1.5, 3.0, 5.0, 10.0])).tolist() == [0.0, 0.5, 1.0, 2.0, 4.0]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), max_size=30))
def test_covered_time_is_that_of_the_seconds_one_by_one(stretches: list[tuple[int, int]]) -> None:
    seconds = {second for begin, length in stretches for second in range(begin, begin + length)}
    begins = np.array([float(begin) for begin, _ in stretches])
    found = union(begins, begins + [float(length) for _, length in stretches])
    edges = np.arange(0.0, 240.0)
    expected = [float(sum(second < edge for second in seconds)) for edge in edges]
    assert found.covered(edges).tolist() == pytest.approx(expected)
    assert pairs(found.clipped(10.0, 20.0)) == pairs(union(*clipped(found)))


def clipped(found: Intervals) -> tuple[np.ndarray, np.ndarray]:
    parts = [(max(begin, 10.0), min(end, 20.0)) for begin, end in pairs(found) if begin < 20.0 and end > 10.0]
    return np.array([begin for begin, _ in parts]), np.array([end for _, end in parts])


def test_either_is_the_union_of_groups() -> None:
    one, two = Intervals(np.array([0.0]), np.array([2.0])), Intervals(np.array([1.0]), np.array([4.0]))
    assert pairs(either([one, two])) == [(0.0, 4.0)]


def test_the_gate_stays_closed_through_pauses_that_are_no_longer_than_the_cooldown() -> None:
    begins, ends = np.array([0.0, 1.5, 3.0]), np.array([1.0, 2.0, 4.0])
    assert pairs(closed(begins, ends, 0.5)) == [(0.0, 2.5), (3.0, 4.5)]


@pytest.mark.parametrize(("gap", "expected"), [(0.0, 0.002), (0.004, 0.008), (0.25, 0.5), (3.0, 0.5)])
def test_the_wake_rule_is_twice_the_gap_within_bounds(gap: float, expected: float) -> None:
    assert cooldown_seconds(gap) == expected


def test_the_bounds_are_the_agents() -> None:
    found = {
        name: int(value) / 1e3
        for name, value in re.findall(r"COOLDOWN_(\w+)_NS \((\d+) \* ROWEN_MS\)", AGENT.read_text())
    }
    assert found == {"FLOOR": COOLDOWN_FLOOR_SECONDS, "CEILING": COOLDOWN_CEILING_SECONDS}
