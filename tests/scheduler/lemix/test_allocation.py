"""Eq. 1 to 3 by hand, and the choice of a node."""

import math

import pytest

from rowen.scheduler.lemix.allocation import Weights, allocate, idleness_profit, node_priority
from rowen.scheduler.lemix.plan import plan
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import empty

TIME = StageTime(0.01, 0.02)
WEIGHTS = Weights(0.0, response=2.0, consistency=10.0)


def put(trace, task, now):
    return trace.after(task, plan(task, trace, now).path, now)


@pytest.mark.parametrize(
    ("idleness", "stages", "interval", "tolerance", "profit"),
    [
        # −max(6/2 − 1, 0.5) = −2: more idle than the interval.
        (6.0, 2, 1.0, 0.5, -2.0),
        # −max(6/2 − 2.75, 0.5) = −0.5: within the tolerance.
        (6.0, 2, 2.75, 0.5, -0.5),
        # −max(1/4 − 2, −1) = 1: an interval counts for a second at most.
        (1.0, 4, 2.0, -1.0, 1.0),
        # −max(1/4 − 2, −3) = 1.75.
        (1.0, 4, 2.0, -3.0, 1.75),
        # No task before.
        (1.0, 2, math.inf, 0.5, -0.5),
    ],
)
def test_idleness_profit_by_hand(idleness, stages, interval, tolerance, profit):
    assert idleness_profit(idleness, stages, interval, tolerance) == pytest.approx(profit)


@pytest.mark.parametrize(
    ("profit", "consistency", "response", "priority"),
    [
        # (3 + 10·0.1)/(2·4) = 0.5.
        (3.0, 0.1, 4.0, 0.5),
        # (−3 + 10·0.5)/(2·4) = 0.25.
        (-3.0, 0.5, 4.0, 0.25),
        # (−3 + 10·0.1)·(2·4) = −16: below 0 the product.
        (-3.0, 0.1, 4.0, -16.0),
        (-1.0, 0.1, 4.0, 0.0),
    ],
)
def test_node_priority_by_hand(profit, consistency, response, priority):
    assert node_priority(profit, consistency, response, WEIGHTS) == pytest.approx(priority)


def test_a_node_with_less_to_wait_for_is_chosen():
    busy, free = put(empty("busy", TIME, 2), Task(0.0, 30), 0.0), empty("free", TIME, 2)
    found = allocate(Task(1.0, 10), [busy, free], 1.0, Weights(1.0))
    assert found.chosen.node == "free"
    assert [score.node for score in found.scores] == ["busy", "free"]
    one, other = found.scores
    # Busy: 9 s a stage, (0, 9), (9, 18); the task (9, 10), (18, 19): R 18, II 0, interval 1: IP −max(−1, 1) = −1.
    assert (one.profit, one.plan.response, one.priority) == tuple(map(pytest.approx, (-1.0, 18.0, -18.0)))
    # Free: R 2, IP −τ = −1.
    assert (other.profit, other.plan.response, other.priority) == tuple(map(pytest.approx, (-1.0, 2.0, -2.0)))
    assert "free of 2: priority -2 from idleness profit -1.000 s" in found.reason
    assert "length consistency 0/token, response 2.000 s" in found.reason


def test_a_node_on_which_idle_time_would_be_made_is_not_chosen():
    training = Task(0.0, 10, trains=True)
    one, other = put(empty("training", TIME, 2), training, 0.0), put(empty("serving", TIME, 2), Task(0.0, 25), 0.0)
    # On `training` 9 s of idleness (see the test of Algorithm 1), R 13, interval 1: IP −max(4.5 − 1, 0) = −3.5.
    # On `serving` (6.25 s a stage): (6.25, 10.25), (12.5, 16.5): II 0, R 15.5, IP 0.
    found = allocate(Task(1.0, 20), [one, other], 1.0, Weights(0.0))
    assert [score.profit for score in found.scores] == [pytest.approx(-3.5), 0.0]
    assert [score.plan.response for score in found.scores] == [pytest.approx(13.0), pytest.approx(15.5)]
    assert found.chosen.node == "serving"


def test_lengths_that_fit_decide_between_equal_nodes():
    def had(node, length):
        trace = empty(node, TIME, 2)
        for _ in range(2):
            trace = put(trace, Task(0.0, length), 0.0)
        return trace

    nodes = [had("long", 12), had("short", 10)]
    # At 100 both are idle since long: profit counts up to the tolerance of −1, R is 2.
    found = allocate(Task(100.0, 10), nodes, 100.0, Weights(-1.0, consistency=1.0))
    assert found.chosen.node == "short"
    assert found.chosen.consistency == pytest.approx(0.398942, rel=1e-5)
    assert [score.plan.response for score in found.scores] == [pytest.approx(2.0)] * 2
    # (1 + 0.398942)/2.
    assert found.chosen.priority == pytest.approx(0.699471, rel=1e-5)
    assert allocate(Task(100.0, 12), nodes, 100.0, Weights(-1.0, consistency=1.0)).chosen.node == "long"


def test_the_interval_of_a_deferred_task_ends_now():
    node = put(empty("n", TIME, 2), Task(7.0, 10), 7.0)
    # Arrived at 8, planned at 11: interval 4. Stages free at 8 and 9; (11, 12), (12, 13): II 3 + 3.
    # IP −max(3 − 4, −9) = 1.
    score = allocate(Task(8.0, 10), [node], 11.0, Weights(-9.0)).chosen
    assert score.plan.idleness == pytest.approx(6.0)
    assert score.profit == pytest.approx(1.0)
    # R from its arrival: 5; 1/5.
    assert score.priority == pytest.approx(0.2)


def test_of_equal_priorities_the_first_answer_decides_then_the_order():
    slow, fast = empty("slow", StageTime(0.02, 0.02), 2), empty("fast", TIME, 2)
    # Without tolerance and history both priorities are 0.
    assert allocate(Task(0.0, 10), [slow, fast], 0.0, Weights(0.0)).chosen.node == "fast"
    same = [empty("a", TIME, 2), empty("b", TIME, 2)]
    assert allocate(Task(0.0, 10), same, 0.0, Weights(0.0)).chosen.node == "a"


def test_no_node_is_refused():
    with pytest.raises(ValueError, match="traces"):
        allocate(Task(0.0, 1), [], 0.0, WEIGHTS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tolerance_seconds": math.nan}, "tolerance_seconds nan"),
        ({"tolerance_seconds": math.inf}, "tolerance_seconds inf"),
        ({"response": 0.0}, "response 0.0"),
        ({"response": math.inf}, "response inf"),
        ({"consistency": -1.0}, "consistency -1.0"),
        ({"consistency": math.inf}, "consistency inf"),
    ],
)
def test_a_weight_that_cannot_be_is_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        Weights(**{"tolerance_seconds": 0.0, **changed})


def test_the_default_weights():
    assert (Weights(1.0).response, Weights(1.0).consistency) == (1.0, 0.0)
