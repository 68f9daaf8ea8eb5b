"""What a node's queue keeps, and what measured times do to it."""

import pytest

from rowen.scheduler.lemix.lengths import NO_LENGTHS
from rowen.scheduler.lemix.plan import plan
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import empty

# A task of length 10 takes 1 s forward and 2 s backward on each of two stages.
NODE = empty("n", StageTime(0.01, 0.02), 2)
TRAINING = Task(0.0, 10, trains=True)
PATH = plan(TRAINING, NODE, 0.0).path
QUEUED = NODE.after(TRAINING, PATH, 0.0)


def test_an_empty_node():
    assert (NODE.node, NODE.stages, NODE.lateness) == ("n", 2, (0.0, 0.0))
    assert (NODE.forward_ends, NODE.queued, NODE.backwards, NODE.lengths) == ((), None, (), NO_LENGTHS)
    assert NODE.last_stage_end(3.0) == 3.0


def test_a_task_is_queued_with_its_ends_its_time_and_its_length():
    assert QUEUED.forward_ends == pytest.approx((1.0, 2.0))
    assert QUEUED.queued == 0.0
    assert QUEUED.lengths == NO_LENGTHS.after(10)
    assert QUEUED.backwards == (PATH.backward,)


def test_the_last_stage_has_its_backward_passes_too():
    # Forward to 2, backward (2, 4).
    assert QUEUED.last_stage_end(0.0) == pytest.approx(4.0)
    assert QUEUED.last_stage_end(9.0) == 9.0
    request = Task(3.0, 10)
    later = QUEUED.after(request, plan(request, QUEUED, 3.0).path, 3.0)
    # Forward (3, 4) on the first stage, (4, 5) on the last.
    assert later.last_stage_end(0.0) == pytest.approx(5.0)


def test_a_backward_pass_stays_while_it_is_in_the_way_at_any_stage():
    short, long = Task(1.0, 10), Task(1.0, 20)
    # (1, 2) and (4, 5): the backward pass (4, 6) of the first stage is still to come.
    path = plan(short, QUEUED, 1.0).path
    assert QUEUED.after(short, path, 1.0).backwards == (PATH.backward,)
    # (6, 10) and (10, 14): (4, 6) and (2, 4) are over.
    path = plan(long, QUEUED, 1.0).path
    assert QUEUED.after(long, path, 1.0).backwards == ()


def test_a_backward_pass_that_ends_with_the_forward_pass_is_over():
    request = Task(4.0, 10)
    path = plan(request, QUEUED, 4.0).path
    # First stage: (4, 5) meets (4, 6), so (6, 7).
    assert path.forward[0] == pytest.approx((6.0, 7.0))
    ends = tuple(end for _, end in PATH.backward)
    exact = type(path)(tuple((end - 1.0, end) for end in ends), (), path.lateness)
    assert QUEUED.after(request, exact, 4.0).backwards == ()


def test_a_serving_task_has_no_backward_pass_to_keep():
    request = Task(0.0, 10)
    assert NODE.after(request, plan(request, NODE, 0.0).path, 0.0).backwards == ()


def test_what_ends_late_moves_what_is_behind_it_on_that_stage():
    # The forward pass of the first stage, planned to end at 1, ends at 1.5.
    found = QUEUED.calibrated(0, PATH, PATH.forward[0], 1.5)
    assert found.forward_ends == pytest.approx((1.5, 2.0))
    assert [pytest.approx(span) for span in ((4.5, 6.5), (2.0, 4.0))] == list(found.backwards[0])
    assert found.lateness == pytest.approx((0.5, 0.0))
    assert (found.queued, found.lengths, found.node, found.time) == (0.0, QUEUED.lengths, "n", QUEUED.time)
    # The second stage's, early.
    early = QUEUED.calibrated(1, PATH, PATH.forward[1], 1.75)
    assert early.forward_ends == pytest.approx((1.0, 1.75))
    assert [pytest.approx(span) for span in ((4.0, 6.0), (1.75, 3.75))] == list(early.backwards[0])


def test_lateness_is_counted_once():
    late = QUEUED.calibrated(0, PATH, PATH.forward[0], 1.5)
    # The backward pass, planned to end at 6, is expected at 6.5 by now: it ends then, and nothing moves.
    same = late.calibrated(0, PATH, PATH.backward[0], 6.5)
    assert same.forward_ends == pytest.approx(late.forward_ends)
    assert same.lateness == pytest.approx((0.5, 0.0))
    # At 7.0 it is 0.5 later still.
    assert late.calibrated(0, PATH, PATH.backward[0], 7.0).lateness == pytest.approx((1.0, 0.0))


def test_what_is_planned_after_a_calibration_is_not_late():
    late = QUEUED.calibrated(0, PATH, PATH.forward[0], 1.5)
    request = Task(1.5, 10)
    path = plan(request, late, 1.5).path
    assert path.lateness == pytest.approx((0.5, 0.0))
    queued = late.after(request, path, 1.5)
    # Planned to end at 2.5, and does.
    assert queued.calibrated(0, path, path.forward[0], 2.5) == queued
