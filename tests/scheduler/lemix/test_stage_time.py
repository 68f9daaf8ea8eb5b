"""η from profiled passes, and stage times from η, worked out by hand."""

import math

import pytest

from rowen.scheduler.lemix.stage_time import StagePass, StageTime, profiled
from rowen.scheduler.lemix.task import Task


def training(length, batch=1):
    return Task(0.0, length, batch, trains=True)


def test_a_stage_takes_eta_times_the_batch_times_the_square_of_the_length():
    time = StageTime(forward=0.01, backward=0.02)
    # 0.01 · 3 · 10² = 3; 0.02 · 3 · 10² = 6.
    assert time.forward_seconds(Task(0.0, 10, 3)) == pytest.approx(3.0)
    assert time.backward_seconds(Task(0.0, 10, 3)) == pytest.approx(6.0)


def test_eta_is_all_time_over_all_work():
    passes = [StagePass(training(10), 1.0, 3.0), StagePass(training(20, 2), 8.0, 15.0)]
    # Work 1·10² + 2·20² = 900; forward 9/900 = 0.01, backward 18/900 = 0.02. (Mean of ratios: 0.01 and 0.024.)
    found = profiled(passes)
    assert (found.forward, found.backward) == (pytest.approx(0.01), pytest.approx(0.02))


def test_backward_time_is_over_the_work_of_training_alone():
    passes = [StagePass(Task(0.0, 20), 4.0, 0.0), StagePass(training(10), 1.0, 2.0)]
    # Forward 5/500 = 0.01; backward 2/100 = 0.02.
    found = profiled(passes)
    assert (found.forward, found.backward) == (pytest.approx(0.01), pytest.approx(0.02))


def test_without_training_there_is_no_backward_time():
    found = profiled([StagePass(Task(0.0, 10), 1.0, 0.0)])
    assert (found.forward, found.backward) == (pytest.approx(0.01), 0.0)


def test_a_time_of_zero_is_a_time_but_not_all_of_them():
    assert profiled([StagePass(training(10), 0.0, 0.0), StagePass(training(10), 2.0, 0.0)]) == StageTime(0.01, 0.0)
    with pytest.raises(ValueError, match=r"forward 0\.0"):
        profiled([StagePass(training(10), 0.0, 0.0)])


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        (0.0, 0.0, "forward 0.0"),
        (math.inf, 0.0, "forward inf"),
        (math.nan, 0.0, "forward nan"),
        (1.0, -0.1, "backward -0.1"),
        (1.0, math.inf, "backward inf"),
    ],
)
def test_an_eta_that_cannot_be_is_refused_by_name(forward, backward, message):
    with pytest.raises(ValueError, match=message):
        StageTime(forward, backward)


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        (-1.0, 0.0, "forward_seconds -1.0"),
        (math.nan, 0.0, "forward_seconds nan"),
        (1.0, math.inf, "backward_seconds inf"),
        (1.0, -0.1, "backward_seconds -0.1"),
    ],
)
def test_a_time_that_cannot_be_is_refused_by_name(forward, backward, message):
    with pytest.raises(ValueError, match=message):
        profiled([StagePass(training(10), forward, backward)])


def test_no_pass_is_no_profile():
    with pytest.raises(ValueError, match="passes"):
        profiled([])


@pytest.mark.parametrize(
    ("arrival", "length", "batch", "message"),
    [
        (math.nan, 1, 1, "arrival nan"),
        (math.inf, 1, 1, "arrival inf"),
        (0.0, 0, 1, "length 0"),
        (0.0, 1, 0, "batch 0"),
    ],
)
def test_a_task_that_cannot_be_is_refused_by_name(arrival, length, batch, message):
    with pytest.raises(ValueError, match=message):
        Task(arrival, length, batch)


def test_the_least_task():
    assert Task(-1.0, 1, 1).work == 1
    assert not Task(0.0, 1).trains
    assert Task(0.0, 7).work == 49
