"""What must hold for any queue of tasks."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.scheduler.lemix.allocation import Weights, allocate, idleness_profit, node_priority
from rowen.scheduler.lemix.batching import BatchLimits, batch_step
from rowen.scheduler.lemix.deferral import deferral, quickest
from rowen.scheduler.lemix.plan import plan
from rowen.scheduler.lemix.stage_memory import MemoryLimits, MemoryStep, memory_step
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import empty

TIME = StageTime(1e-4, 1.5e-4)
seconds = st.floats(0.0, 100.0)
arrivals = st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(1, 200), st.booleans()), max_size=12)
stages = st.integers(1, 4)


def queue(rows, count, node="n"):
    """A node with these tasks, of (time since the last, length, trains), and all their paths."""
    trace, now, paths = empty(node, TIME, count), 0.0, []
    for gap, length, trains in rows:
        now += gap
        task = Task(now, length, trains=trains)
        path = plan(task, trace, now).path
        trace = trace.after(task, path, now)
        paths.append(path)
    return trace, now, paths


@given(arrivals, stages)
def test_no_two_passes_overlap_on_a_stage(rows, count):
    _, _, paths = queue(rows, count)
    for stage in range(count):
        spans = sorted(path.forward[stage] for path in paths)
        spans += [path.backward[stage] for path in paths if path.backward]
        spans.sort()
        assert all(first[1] <= second[0] + 1e-9 for first, second in itertools.pairwise(spans))


@given(arrivals, stages, st.integers(1, 200))
def test_idleness_is_never_negative_and_nothing_ends_before_its_own_work(rows, count, length):
    trace, now, _ = queue(rows, count)
    task = Task(now, length)
    found = plan(task, trace, now)
    assert found.idleness >= -1e-9
    assert found.response >= count * TIME.forward_seconds(task) - 1e-9
    starts = [start for start, _ in found.path.forward]
    assert starts == sorted(starts)


@given(arrivals, stages, st.integers(1, 200))
def test_what_was_dropped_from_the_queue_was_in_nobodys_way(rows, count, length):
    trace, now, paths = queue(rows, count)
    whole = type(trace)(
        trace.node,
        trace.time,
        trace.lateness,
        trace.forward_ends,
        trace.queued,
        tuple(path.backward for path in paths if path.backward),
        trace.lengths,
    )
    task = Task(now, length, trains=True)
    pruned, full = plan(task, trace, now), plan(task, whole, now)
    assert pruned.path == full.path
    assert pruned.idleness == pytest.approx(full.idleness, abs=1e-9)


@given(seconds, seconds, st.integers(1, 8), seconds, st.floats(-10.0, 10.0))
def test_less_idleness_never_lowers_the_profit(one, other, count, interval, tolerance):
    less, more = sorted((one, other))
    assert idleness_profit(less, count, interval, tolerance) >= idleness_profit(more, count, interval, tolerance)
    assert idleness_profit(one, count, interval, tolerance) <= -tolerance


@given(arrivals, stages, st.integers(1, 200), st.floats(0.0, 50.0))
def test_a_node_without_any_task_has_the_highest_profit(rows, count, length, wait):
    trace, now, _ = queue(rows, count)
    task = Task(now + wait, length)
    used, idle = allocate(task, [trace, empty("new", TIME, count)], now + wait, Weights(0.5)).scores
    assert idle.profit >= used.profit


@given(st.floats(-10.0, 10.0), st.floats(0.0, 0.4), st.floats(0.01, 50.0), st.floats(0.01, 50.0))
def test_a_longer_response_never_raises_a_priority(profit, consistency, one, other):
    weights = Weights(0.0, consistency=3.0)
    quick, slow = sorted((one, other))
    assert node_priority(profit, consistency, quick, weights) >= node_priority(profit, consistency, slow, weights)


@given(st.floats(-10.0, 10.0), st.floats(-10.0, 10.0), st.floats(0.0, 0.4), st.floats(0.01, 50.0))
def test_more_profit_never_lowers_a_priority(one, other, consistency, response):
    weights = Weights(0.0, consistency=3.0)
    low, high = sorted((one, other))
    assert node_priority(high, consistency, response, weights) >= node_priority(low, consistency, response, weights)


@given(st.lists(arrivals, min_size=1, max_size=3), stages, st.integers(1, 200), st.floats(0.0, 20.0))
@settings(max_examples=60)
def test_training_waits_exactly_when_no_node_answers_in_time(groups, count, length, slo):
    traces = [queue(rows, count, str(number))[0] for number, rows in enumerate(groups)]
    now = max(queue(rows, count)[1] for rows in groups)
    training, request = Task(now, length, trains=True), Task(now, 50)
    allocation = allocate(training, traces, now, Weights(0.0))
    found = deferral(training, allocation, request, traces, now, slo)
    placed = [
        trace.after(training, allocation.chosen.plan.path, now) if trace.node == allocation.chosen.node else trace
        for trace in traces
    ]
    assert found.deferred == (quickest(request, placed, now)[0] > slo)
    # Training never helps the request, so where it is late without it, training waits.
    if quickest(request, traces, now)[0] > slo:
        assert found.deferred
    assert not deferral(training, allocation, request, traces, now, math.inf).deferred


@given(seconds, seconds, st.floats(0.0, 5.0))
def test_memory_is_never_given_beyond_the_threshold(used, need, waited):
    limits = MemoryLimits(60.0, 0.9, 0.1, 1.0)
    found = memory_step(used, need, waited, limits)
    if found.step is MemoryStep.RUN:
        assert used + need <= limits.threshold + 1e-9
    if found.step is MemoryStep.WAIT:
        assert waited < limits.wait_seconds


@given(st.lists(st.booleans(), max_size=10), st.integers(1, 5), st.floats(0.0, 2.0))
def test_a_batch_is_of_requests_alone_and_no_queue_waits_for_ever(kinds, size, waited):
    tasks = [Task(0.0, 10, trains=trains) for trains in kinds]
    found = batch_step(tasks, 5.0, 5.0 + waited, BatchLimits(size, 1.0))
    taken = tasks[: found.count]
    assert found.count <= max(1, size)
    assert found.count == 1 or not any(task.trains for task in taken)
    assert found.count or not tasks or 5.0 + waited < found.until <= 6.0
