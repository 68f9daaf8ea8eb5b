"""The same requests with jobs and before there were any, made up for each case."""

from itertools import count

import pytest

from rowen.demo.verdict.before import Before, Pair, compared
from rowen.demo.verdict.exposure import Exposure
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


def pairs(number, jobs, alone, *, together=False, **alone_given):
    """Each in a busy time of its own, or all in one."""
    found, period = [], next(PERIODS)
    for _ in range(number):
        period = period if together else next(PERIODS)
        found.append(Pair(sample(jobs, period), sample(alone, period, **alone_given)))
    return found


def verdict(*groups, failed=0, replayer_ms=1.0):
    every = [pair for group in groups for pair in group]
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
        # Four are allowed for, and to a standard deviation chance makes it three more.
        (6, Cause.SERVICE),
        (7, Cause.UNKNOWN),
        (12, Cause.TENANT),
        (40, Cause.TENANT),
    ],
)
def test_how_many_more_are_late_with_jobs(more, cause):
    assert verdict(pairs(380 - more, FAST, FAST), pairs(20, SLOW, SLOW), pairs(more, SLOW, FAST)).cause is cause


@pytest.mark.parametrize(("more", "cause"), [(5, Cause.UNKNOWN), (7, Cause.UNKNOWN), (12, Cause.TENANT)])
def test_a_service_that_kept_it_before_is_not_to_blame(more, cause):
    found = verdict(pairs(398 - more, FAST, FAST), pairs(2, SLOW, SLOW), pairs(more, SLOW, FAST))
    assert found.cause is cause
    assert ("chance may have made the difference" in found.because) is (cause is Cause.UNKNOWN)


def test_those_of_one_busy_time_are_one_witness():
    found = verdict(pairs(300, FAST, FAST), pairs(100, SLOW, FAST, together=True))
    assert found.cause is Cause.UNKNOWN


@pytest.mark.parametrize("side", ["jobs", "alone"])
def test_who_was_with_another_either_time_is_of_its_busy_time(side):
    found = pairs(100, SLOW, FAST)
    one = next(PERIODS)
    joined = [
        Pair(sample(SLOW, one), pair.alone) if side == "jobs" else Pair(pair.jobs, sample(FAST, one)) for pair in found
    ]
    assert verdict(pairs(300, FAST, FAST), found).cause is Cause.TENANT
    assert verdict(pairs(300, FAST, FAST), joined).cause is Cause.UNKNOWN


def test_what_changed_to_either_side_alike_is_chance():
    found = verdict(pairs(300, FAST, FAST), pairs(20, SLOW, SLOW), pairs(42, SLOW, FAST), pairs(38, FAST, SLOW))
    assert found.cause is Cause.SERVICE


def test_one_stall_before_there_were_jobs_does_not_make_the_service_slow():
    stalled = pairs(40, SLOW, SLOW, together=True)
    assert verdict(pairs(360, FAST, FAST), stalled).cause is Cause.UNKNOWN
    assert verdict(pairs(350, FAST, FAST), stalled, pairs(10, SLOW, SLOW)).cause is Cause.SERVICE


def test_what_may_have_been_read_late_before_does_not_clear_jobs_nor_accuse_them():
    """Of those above it before, the replayer's own loop may have taken the time."""
    assert verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW, lag=0.5)).cause is Cause.UNKNOWN


def test_what_was_sent_late_before_was_not_late():
    assert verdict(pairs(360, FAST, FAST), pairs(40, SLOW, SLOW, late=0.6)).cause is Cause.TENANT


def test_a_replayer_without_time_before_has_shown_nothing():
    found = verdict(pairs(360, FAST, FAST), pairs(40, SLOW, FAST), replayer_ms=101.0)
    assert found.cause is Cause.BUSY
    assert found.because.startswith("before there were jobs the replayer sent its requests")


def test_who_was_not_answered_before_is_told():
    assert ", 3 were not answered then)" in verdict(pairs(300, SLOW, SLOW), failed=3).because
