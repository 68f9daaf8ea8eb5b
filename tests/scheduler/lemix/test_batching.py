"""Algorithm 3, each branch."""

import pytest

from rowen.scheduler.lemix.batching import BatchDecision, BatchLimits, batch_step
from rowen.scheduler.lemix.task import Task

LIMITS = BatchLimits(size=3, wait_seconds=0.5)
R, T = Task(0.0, 10), Task(0.0, 10, trains=True)


@pytest.mark.parametrize(
    ("queue", "now", "count", "until", "reason"),
    [
        ([], 10.0, 0, None, "nothing is queued"),
        ([T], 10.0, 1, None, "a training task runs by itself"),
        ([T, R, R], 10.0, 1, None, "a training task runs by itself"),
        ([R, R, R], 10.0, 3, None, "3 requests fill the batch"),
        ([R, R, R, R], 10.0, 3, None, "3 requests fill the batch"),
        ([R, R, R, T], 10.0, 3, None, "3 requests fill the batch"),
        # Behind the training task nothing joins the batch, so there is nothing to wait for.
        ([R, R, T], 10.0, 2, None, "a training task follows"),
        ([R, T, R], 10.0, 1, None, "a training task follows"),
        ([R, R], 10.0, 0, 10.5, "2 of 3 requests, 0.500 s left to wait"),
        ([R], 10.25, 0, 10.5, "1 of 3 requests, 0.250 s left to wait"),
        ([R, R], 10.5, 2, None, "waited 0.500 s"),
        ([R, R], 11.0, 2, None, "waited 1.000 s"),
    ],
)
def test_each_branch(queue, now, count, until, reason):
    assert batch_step(queue, 10.0, now, LIMITS) == BatchDecision(count, until, reason)


def test_batches_of_one_never_wait():
    assert batch_step([R], 10.0, 10.0, BatchLimits(1, 0.5)).count == 1
