"""Eq. 4 by hand: a task of length 10 takes 1 s forward and 2 s backward on each of two stages."""

import pytest

from rowen.scheduler.lemix.allocation import Weights, allocate
from rowen.scheduler.lemix.deferral import deferral, quickest, response_seconds
from rowen.scheduler.lemix.plan import plan
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import empty

TIME = StageTime(0.01, 0.02)
TRAINING = Task(0.0, 10, trains=True)
REQUEST = Task(0.0, 10)


def put(trace, task, now):
    return trace.after(task, plan(task, trace, now).path, now)


def decided(traces, slo, *, request=REQUEST, now=0.0):
    return deferral(TRAINING, allocate(TRAINING, traces, now, Weights(1.0)), request, traces, now, slo)


def test_an_idle_node_answers_after_the_requests_own_stages():
    assert response_seconds(REQUEST, empty("n", TIME, 2), 0.0) == pytest.approx(2.0)
    # Three stages: two to the last one, and that.
    assert response_seconds(REQUEST, empty("n", TIME, 3), 0.0) == pytest.approx(3.0)
    # 4 s a stage: two to the last one, and that.
    assert response_seconds(Task(0.0, 20), empty("n", TIME, 3), 0.0) == pytest.approx(12.0)
    # One that waits for 4 s already.
    assert response_seconds(REQUEST, empty("n", TIME, 2), 4.0) == pytest.approx(6.0)
    assert response_seconds(Task(3.0, 10), empty("n", TIME, 2), 0.0) == pytest.approx(2.0)


def test_a_busy_node_answers_after_its_last_stage_is_done():
    # Backward on the last stage until 4, then 1 s.
    assert response_seconds(REQUEST, put(empty("n", TIME, 2), TRAINING, 0.0), 0.0) == pytest.approx(5.0)
    assert response_seconds(Task(3.0, 10), put(empty("n", TIME, 2), TRAINING, 0.0), 3.0) == pytest.approx(2.0)


def test_the_quickest_node():
    busy, free = put(empty("busy", TIME, 2), TRAINING, 0.0), empty("free", TIME, 2)
    assert quickest(REQUEST, [busy, free], 0.0) == (pytest.approx(2.0), "free")


def test_training_waits_when_the_request_behind_it_would_be_late():
    # With the training task on the only node the request takes 5 s.
    assert decided([empty("n", TIME, 2)], 4.9).deferred
    assert decided([empty("n", TIME, 2)], 4.9).reason == "the next request would take 5.000 s on n, more than 4.900 s"


def test_training_goes_on_where_the_request_is_just_in_time():
    found = decided([empty("n", TIME, 2)], 5.0)
    assert not found.deferred
    assert found.reason == "the next request would take 5.000 s on n, within 5.000 s"


def test_another_node_may_answer_the_request():
    found = decided([empty("a", TIME, 2), empty("b", TIME, 2)], 2.0)
    assert not found.deferred
    assert "2.000 s on b" in found.reason


def test_training_waits_when_every_node_is_late():
    nodes = [put(empty(name, TIME, 2), TRAINING, 0.0) for name in "ab"]
    assert decided(nodes, 4.0).deferred
    # One of them keeps the request to 5 s, whatever the other gets.
    assert not decided(nodes, 5.0).deferred


def test_without_a_request_nothing_waits():
    nodes = [put(empty(name, TIME, 2), TRAINING, 0.0) for name in "ab"]
    found = decided(nodes, 0.0, request=None)
    assert (found.deferred, found.reason) == (False, "no request follows")
