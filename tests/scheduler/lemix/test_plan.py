"""Algorithm 1 by hand: η_F = 0.01, η_B = 0.02, two stages: length 10 takes 1 s forward, 2 s backward a stage."""

import pytest

from rowen.scheduler.lemix.plan import plan
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import empty

TIME = StageTime(0.01, 0.02)
NODE = empty("n", TIME, 2)


def put(trace, task, now):
    return trace.after(task, plan(task, trace, now).path, now)


TRAINING = Task(0.0, 10, trains=True)
# Forward (0, 1), (1, 2); backward on the second stage (2, 4), then on the first (4, 6).
AFTER_TRAINING = put(NODE, TRAINING, 0.0)


def close(spans):
    return [pytest.approx(span) for span in spans]


def test_an_empty_node_is_only_filled():
    found = plan(Task(5.0, 10), NODE, 5.0)
    assert list(found.path.forward) == close([(5, 6), (6, 7)])
    assert found.path.backward == ()
    # The second stage waits 1 s for the first.
    assert found.idleness == pytest.approx(1.0)
    assert found.response == pytest.approx(2.0)


def test_the_backward_path_goes_back_through_the_stages():
    found = plan(TRAINING, NODE, 0.0)
    assert list(found.path.forward) == close([(0, 1), (1, 2)])
    assert list(found.path.backward) == close([(4, 6), (2, 4)])
    assert found.response == pytest.approx(2.0)


def test_a_forward_pass_that_ends_before_the_backward_pass_goes_first():
    found = plan(Task(1.0, 10), AFTER_TRAINING, 1.0)
    # First stage: (1, 2) is before (4, 6). Second: (2, 3) is in the way of (2, 4), so (4, 5); the 2 s are work.
    assert list(found.path.forward) == close([(1, 2), (4, 5)])
    assert found.idleness == pytest.approx(0.0)
    assert found.response == pytest.approx(4.0)


def test_a_forward_pass_that_ends_as_the_backward_pass_begins_goes_first():
    found = plan(Task(1.0, 10, 3), AFTER_TRAINING, 1.0)
    # 3 s a stage. First stage (1, 4), backward pass from 4 on. Second: from 4, after (2, 4).
    assert list(found.path.forward) == close([(1, 4), (4, 7)])
    assert found.idleness == pytest.approx(0.0)


def test_a_forward_pass_that_is_too_long_waits_and_leaves_idle_time():
    found = plan(Task(1.0, 20), AFTER_TRAINING, 1.0)
    # 4 s a stage. First stage: (1, 5) is in the way of (4, 6), so (6, 10): 5 s after 1, 2 of them work: 3 idle.
    # Second: (10, 14), 8 s after 2, the backward pass (2, 4) work: 6 idle.
    assert list(found.path.forward) == close([(6, 10), (10, 14)])
    assert found.idleness == pytest.approx(9.0)
    assert found.response == pytest.approx(13.0)


def test_a_backward_pass_before_the_last_forward_pass_is_no_work_of_this_interval():
    trace = put(AFTER_TRAINING, Task(1.0, 10), 1.0)
    found = plan(Task(5.0, 10), trace, 5.0)
    # First stage: free at 2, (5, 6) is in the way of (4, 6), so (6, 7): 4 s, 2 of them work: 2 idle.
    # Second: free at 5, (7, 8): 2 idle; the backward pass (2, 4) was before the forward pass (4, 5).
    assert list(found.path.forward) == close([(6, 7), (7, 8)])
    assert found.idleness == pytest.approx(4.0)
    assert found.response == pytest.approx(3.0)


def test_a_later_backward_pass_comes_after_all_earlier_ones():
    trace = put(NODE, Task(0.0, 20, trains=True), 0.0)
    # Forward (0, 4), (4, 8); backward (8, 16), then (16, 24).
    found = plan(TRAINING, trace, 0.0)
    assert list(found.path.forward) == close([(4, 5), (16, 17)])
    assert list(found.path.backward) == close([(24, 26), (17, 19)])


def test_several_backward_passes_are_all_waited_for_and_all_work():
    trace = put(AFTER_TRAINING, TRAINING, 0.0)
    # The second: forward (1, 2), (4, 5), backward (5, 7) on the second stage, (7, 9) on the first.
    found = plan(Task(0.0, 20), trace, 0.0)
    # First stage, 4 s: (2, 6) meets (4, 6), then (6, 10) meets (7, 9), so (9, 13): 7 s after 2, 4 of them work.
    # Second: (13, 17), 8 s after 5; of the backward passes (2, 4) was before 5, (5, 7) counts.
    assert list(found.path.forward) == close([(9, 13), (13, 17)])
    assert found.idleness == pytest.approx(3.0 + 6.0)


def test_a_gap_between_two_backward_passes_is_used():
    trace = put(AFTER_TRAINING, TRAINING, 0.0)
    # First stage: (2, 3) is before (4, 6). Second: free at 5, (5, 6) meets (5, 7), so (7, 8).
    found = plan(Task(0.0, 10), trace, 0.0)
    assert list(found.path.forward) == close([(2, 3), (7, 8)])
    # On the first stage from 6 on: (6, 7) ends as (7, 9) begins.
    late = plan(Task(6.0, 10), trace, 6.0)
    assert list(late.path.forward) == close([(6, 7), (7, 8)])
    # 4 s after 2 with 2 s of work; 2 s after 5, all work.
    assert late.idleness == pytest.approx(2.0)


def test_a_deferred_task_starts_now_and_its_response_counts_from_its_arrival():
    found = plan(Task(2.0, 10), NODE, 7.0)
    assert list(found.path.forward) == close([(7, 8), (8, 9)])
    assert found.response == pytest.approx(7.0)
    assert found.idleness == pytest.approx(1.0)


def test_one_stage():
    found = plan(TRAINING, empty("n", TIME, 1), 0.0)
    assert list(found.path.forward) == close([(0, 1)])
    assert list(found.path.backward) == close([(1, 3)])
    assert found.idleness == pytest.approx(0.0)
