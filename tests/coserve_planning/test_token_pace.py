import math

import pytest
from coserve_planning.machines import planner

from rowen.crds.ride.terms import LatencyBound
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.token_pace import TokenPace

TOKEN = 0.9 * 0.064


def pace(due_in: float = math.inf) -> TokenPace:
    found = TokenPace(LatencyBound(percentile=90.0, seconds=0.064))
    found.due_in = due_in
    return found


def test_a_tenth_of_the_bound_is_not_planned_for() -> None:
    assert pace().token_seconds == pytest.approx(TOKEN)


@pytest.mark.parametrize(
    ("due_in", "parts"),
    [(math.inf, 32), (2 * TOKEN, 32), (0.501 * TOKEN, 16), (0.499 * TOKEN, 15), (0.01 * TOKEN, 0), (0.0, 0)],
)
def test_a_step_may_take_what_is_left_in_whole_parts(due_in: float, parts: int) -> None:
    assert pace(due_in).parts == parts
    assert pace(due_in).step_seconds == pytest.approx(parts / 32 * TOKEN)


@pytest.mark.parametrize("due_in", [-0.001, -0.05, -3.0, -1000.0])
def test_who_is_behind_has_nothing_left_and_no_less(due_in: float) -> None:
    assert (pace(due_in).parts, pace(due_in).step_seconds) == (0, 0.0)


def test_plans_are_the_same_however_far_somebody_is_behind() -> None:
    found = planner()
    found.token_pace.due_in = -0.1
    plan = found.plan(Load(4, 800), 100, False)
    found.token_pace.due_in = -5.0
    assert found.plan(Load(4, 800), 100, False) is plan


def test_it_tells_whether_the_margin_moved() -> None:
    found = pace()
    assert not found.observe(0.05, 0.01)
    assert found.observe(0.07, 0.02)
    # A fifth, of which the percentile has nine tenths.
    assert found.token_seconds == pytest.approx(TOKEN * math.exp(-0.18))
    for _ in range(9):
        assert found.observe(0.05, 0.01)
    # A tenth of the fifth for each: by now, but for rounding, it has the whole again.
    found.observe(0.05, 0.01)
    assert not found.observe(0.05, 0.01)


def test_kept_while_no_more_are_late_than_allowed() -> None:
    found = pace()
    assert found.kept
    found.observe(0.07, 0.0)
    assert not found.kept
