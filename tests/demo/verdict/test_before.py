"""The same requests with jobs and before there were any, made up for each case."""

from itertools import count

import pytest
from outcomes import outcome

from rowen.demo.traffic.excerpt import load
from rowen.demo.traffic.scaling import DEMO, scale
from rowen.demo.verdict.before import Before, Pair, compared
from rowen.demo.verdict.exposure import Exposure, exposures
from rowen.demo.verdict.finding import Cause
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.sample import Sample

PERIODS = count(1)
P99 = Target(99, 0.5)
FAST, SLOW = 0.1, 0.9


def sample(seconds, period, *, late=0.0, lag=0.0):
    exposure = Exposure(True, False, False, False, 0.0, 0.0, 0.0, 0, period)
    return Sample(seconds, exposure, late=late, lag=lag)


DUE = count(0, 6)
"""Seconds: each a stretch of its own."""


def pairs(number, jobs, alone, *, together=False, **alone_given):
    """Each in a stretch of its own, or all in one busy time."""
    found, period, due = [], next(PERIODS), next(DUE)
    for _ in range(number):
        period, due = (period, due) if together else (next(PERIODS), next(DUE))
        found.append(Pair(due, sample(jobs, next(PERIODS)), sample(alone, period, **alone_given)))
    return found


def verdict(*groups, failed=0, replayer_ms=1.0):
    every = sorted((pair for group in groups for pair in group), key=lambda pair: pair.due)
    return compared(Before(every, failed, Lateness(0.0, replayer_ms, 0.0)), P99)


def test_who_would_have_been_late_anyway_is_not_held_against_jobs():
    found = verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW))
    assert found.cause is Cause.SERVICE
    assert found.because == (
        "above it were 40 of 400 requests, and 40 of the same ones before there were jobs (p99 900.0 ms)"
    )


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        # As many as are allowed for.
        (3, Cause.SERVICE),
        (4, Cause.UNKNOWN),
        (7, Cause.UNKNOWN),
        (12, Cause.TENANT),
        (40, Cause.TENANT),
    ],
)
def test_how_many_more_are_late_with_jobs(more, cause):
    assert verdict(pairs(379 - more, FAST, FAST), pairs(20, SLOW, SLOW), pairs(more, SLOW, FAST)).cause is cause


@pytest.mark.parametrize(
    ("more", "cause"), [(3, Cause.UNKNOWN), (5, Cause.UNKNOWN), (7, Cause.UNKNOWN), (12, Cause.TENANT)]
)
def test_a_service_that_kept_it_before_is_not_to_blame(more, cause):
    found = verdict(pairs(398 - more, FAST, FAST), pairs(2, SLOW, SLOW), pairs(more, SLOW, FAST))
    assert found.cause is cause
    assert ("chance may have made the difference" in found.because) is (cause is Cause.UNKNOWN)


def test_those_of_one_busy_time_are_one_witness():
    found = verdict(pairs(300, FAST, FAST), pairs(100, SLOW, FAST, together=True))
    assert found.cause is Cause.UNKNOWN


def test_who_was_busy_together_with_jobs_alone_are_witnesses_each():
    """Jobs make requests stay longer, so that the service is never idle."""
    period = next(PERIODS)
    stayed = [Pair(pair.due, sample(SLOW, period), pair.alone) for pair in pairs(100, SLOW, FAST)]
    assert verdict(pairs(300, FAST, FAST), stayed).cause is Cause.TENANT


@pytest.mark.parametrize(("apart", "cause"), [(0.6, Cause.UNKNOWN), (5.0, Cause.TENANT)])
def test_those_of_five_seconds_are_one_witness(apart, cause):
    found = pairs(20, SLOW, FAST)
    late = [Pair(found[0].due + apart * number, pair.jobs, pair.alone) for number, pair in enumerate(found)]
    assert verdict(pairs(300, FAST, FAST), late).cause is cause


def test_all_of_them_late_is_more_than_chance_explains():
    """Of the demo's own traffic, also where jobs leave no moment without a request."""
    requests = scale(load(), DEMO, seconds=180.0)
    before = exposures([outcome(each.arrival, seconds=each.output_tokens * 0.02) for each in requests], ())
    with_jobs = exposures([outcome(each.arrival, seconds=each.output_tokens * 0.15) for each in requests], ())
    found = [
        Pair(each.arrival, Sample(SLOW, jobs), Sample(FAST, alone))
        for each, jobs, alone in zip(requests, with_jobs, before, strict=True)
    ]
    assert verdict(found).cause is Cause.TENANT
    # A stall of half a minute is no evidence.
    stalled = [Pair(each.due, each.jobs if 60 < each.due < 90 else each.alone, each.alone) for each in found]
    assert verdict(stalled).cause is Cause.UNKNOWN


@pytest.mark.parametrize(("more", "cause"), [(42, Cause.SERVICE), (43, Cause.UNKNOWN)])
def test_those_that_changed_to_either_side_make_up_for_each_other(more, cause):
    found = verdict(pairs(300, FAST, FAST), pairs(20, SLOW, SLOW), pairs(more, SLOW, FAST), pairs(38, FAST, SLOW))
    assert found.cause is cause


def test_one_stall_before_there_were_jobs_does_not_make_the_service_slow():
    stalled = pairs(40, SLOW, SLOW, together=True)
    found = verdict(pairs(360, FAST, FAST), stalled)
    assert found.cause is Cause.UNKNOWN
    assert "no more on top than the objective allows" in found.because
    assert "nothing beside its worst stretch shows a miss" in found.because
    assert verdict(pairs(350, FAST, FAST), stalled, pairs(10, SLOW, SLOW)).cause is Cause.SERVICE
    # Nor do a few without it.
    assert verdict(stalled, pairs(99, SLOW, SLOW)).cause is Cause.UNKNOWN
    assert verdict(stalled, pairs(100, SLOW, SLOW)).cause is Cause.SERVICE


def test_what_may_have_been_read_late_before_does_not_clear_jobs_nor_accuse_them():
    """Of those above it before, the replayer's own loop may have taken the time."""
    assert verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW, lag=0.5)).cause is Cause.UNKNOWN


def test_what_was_sent_late_before_was_not_late():
    assert verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW, late=0.6)).cause is Cause.TENANT


def test_a_replayer_without_time_before_clears_nobody():
    found = verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW), replayer_ms=101.0)
    assert found.cause is Cause.BUSY
    assert "; before there were jobs the replayer sent its requests" in found.because


def test_nor_does_it_hide_what_jobs_did():
    assert verdict(pairs(360, FAST, FAST), pairs(40, SLOW, FAST), replayer_ms=101.0).cause is Cause.TENANT


def test_who_was_not_answered_before_is_told():
    assert ", 3 were not answered then)" in verdict(pairs(300, SLOW, SLOW), failed=3).because
