"""Whose fault a missed objective is, on requests made up for each case."""

import random
import re
from itertools import count

import pytest
from outcomes import outcome
from queueing import SECONDS, queue

from rowen.demo.verdict.before import Before, Pair
from rowen.demo.verdict.blame import blame
from rowen.demo.verdict.exposure import Exposure, exposures
from rowen.demo.verdict.finding import Cause
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.sample import Sample, tpot_samples, ttft_samples

PERIODS = count(1)
P99 = Target(99, 0.5)
P50 = Target(50, 0.5)


def exposure(*, met=False, tenant=True, way=0.0, stop=0.0, still=0.0, others=0, riders=False):
    return Exposure(
        recorded=True,
        tenant=tenant,
        preempted=met,
        met_stop=met,
        way=way,
        stop=stop,
        still=still,
        others=others,
        period=next(PERIODS),
        riders=riders,
    )


def some(number, seconds, *, late=0.0, way=0.0, stop=0.0, **given):
    """Each in a busy period of its own."""
    return [Sample(seconds, exposure(way=way, stop=stop, **given), late, way, stop) for _ in range(number)]


def test_a_late_replayer_is_to_blame_where_the_rest_is_fast_enough():
    found = blame(some(10, 0.75, late=0.25), P50)
    assert found.cause is Cause.REPLAYER
    assert found.because == "the replayer sent 250.0 ms late (p50); without that it is 500.0 ms"


def test_a_late_replayer_is_no_excuse_for_what_is_slow_anyway():
    assert blame(some(20, 0.76, late=0.25), P50).cause is not Cause.REPLAYER


@pytest.mark.parametrize(("lag", "cause"), [(0.4, Cause.UNKNOWN), (0.39, Cause.SERVICE)])
def test_where_late_reading_could_explain_it_the_service_alone_is_not_blamed(lag, cause):
    given = exposure(tenant=False)
    answers = [outcome(10.0, ttft=0.9, tpot=0.09, tokens=11, lag=lag)] * 200
    assert blame(ttft_samples([(one, given) for one in answers]), P99).cause is cause
    assert blame(tpot_samples([(one, given) for one in answers]), Target(99, 0.05)).cause is cause


def test_a_late_replayer_needs_no_evidence_of_the_agent():
    assert blame(some(10, 0.75, late=0.25), P50, "no agent").cause is Cause.REPLAYER


def test_without_evidence_nobody_is_to_blame():
    found = blame(some(300, 0.9), P99, "the agent recorded nothing")
    assert (found.cause, found.because) == (Cause.UNKNOWN, "the agent recorded nothing")


def test_offline_work_is_to_blame_where_its_stops_make_the_difference():
    found = blame(some(10, 0.515625, met=True, stop=0.015625), P50)
    assert found.cause is Cause.TENANT
    assert "without the time that stops of offline work took it is 500.0 ms" in found.because


@pytest.mark.parametrize(("stop", "cause"), [(0.026, Cause.TENANT), (0.024, Cause.SERVICE)])
def test_a_slow_service_is_no_excuse_for_slow_stops(stop, cause):
    assert blame(some(200, 0.9, stop=stop), P99).cause is cause


@pytest.mark.parametrize(("seconds", "cause"), [(0.75, Cause.UNKNOWN), (0.76, Cause.SERVICE)])
def test_what_passed_before_the_gate_closed_is_nobodys_in_particular(seconds, cause):
    found = blame(some(200, seconds, way=0.25), P99)
    assert found.cause is cause
    assert ("to the gate's close it is 500.0 ms" in found.because) is (cause is Cause.UNKNOWN)


def test_way_and_stop_together_are_not_the_services():
    assert blame(some(200, 0.76, way=0.25, stop=0.015), P99).cause is Cause.UNKNOWN


def test_offline_work_is_to_blame_where_those_that_met_it_are_the_slow_ones():
    found = blame([*some(200, 0.1), *some(40, 0.1, met=True), *some(10, 0.9, met=True)], P99)
    assert found.cause is Cause.TENANT
    assert "10 of 50 requests sent before offline work stood still, 0 of the 200 others" in found.because


def test_offline_work_is_to_blame_where_those_served_beside_it_are_the_slow_ones():
    """It may compute behind a closed gate: then those that met no stop are slow too."""
    found = blame([*some(100, 0.1, tenant=False), *some(88, 0.1), *some(12, 0.9)], P99)
    assert found.cause is Cause.TENANT
    assert "12 of 100 requests served with offline work on the device, 0 of the 100 others" in found.because


def test_one_slow_request_is_no_evidence():
    """One request of a hundred is slow, and it met a stop, as three fast ones did."""
    found = blame([*some(96, 0.1), *some(3, 0.1, met=True), *some(1, 60.0, met=True)], P99)
    assert found.cause is Cause.UNKNOWN
    assert "1 of 4 requests sent before offline work stood still, 0 of the 96 others: queueing alone" in found.because


def test_counts_may_be_larger_than_floats():
    samples = [*some(600, 0.1), *some(600, 0.9), *some(300, 0.1, met=True), *some(300, 0.9, met=True)]
    assert blame(samples, P99).cause is Cause.SERVICE


@pytest.mark.parametrize(("late", "lag", "cause"), [(0.2, 0.0, "tenant"), (0.0, 0.2, "tenant"), (0.0, 0.0, "service")])
def test_the_replayers_delays_hide_no_harm(late, lag, cause):
    """Ten that met no stop are above the target: by the replayer's delay alone, or by themselves."""
    slow = [Sample(0.6, exposure(), late=late, lag=lag) for _ in range(10)]
    samples = [*some(94, 0.1, met=True), *some(6, 0.9, met=True), *some(290, 0.1), *slow]
    assert blame(samples, P99).cause == cause


@pytest.mark.parametrize(("way", "cause"), [(0.12, Cause.UNKNOWN), (0.08, Cause.SERVICE)])
def test_the_way_to_the_gate_is_not_the_services_where_those_without_a_stop_are_compared(way, cause):
    """At once only those without a stop would be fast enough; the target is missed by the others too."""
    samples = [*some(300, 0.1), *some(10, 0.6, way=way), *some(180, 0.1, met=True), *some(6, 0.9, met=True)]
    assert blame(samples, P99).cause is cause


def first_half(moment):
    return moment < SECONDS / 2


def verdict_on_queue(seed, percentile, rates, cost=0.0):
    """Offline work in the first half; requests per second of both halves."""
    outcomes, transitions = queue(
        random.Random(seed), rate=lambda moment: rates[not first_half(moment)], tenant=first_half, cost=cost
    )
    target = Target(percentile, 0.15 if percentile == 90 else 0.3)
    return blame(ttft_samples(zip(outcomes, exposures(outcomes, transitions), strict=True)), target).cause


@pytest.mark.parametrize("percentile", [90, 99])
@pytest.mark.parametrize("rates", [(7.0, 2.0), (4.0, 4.0)])
def test_what_queueing_makes_is_not_held_against_offline_work(percentile, rates):
    found = [verdict_on_queue(seed, percentile, rates) for seed in range(40)]
    assert found.count(Cause.TENANT) <= 2


def test_stops_that_cost_more_than_the_agent_sees_are_found():
    found = [verdict_on_queue(seed, 90, (3.0, 3.0), cost=0.2) for seed in range(20)]
    assert found.count(Cause.TENANT) >= 18


def test_the_service_is_to_blame_where_those_that_met_no_stop_are_slow():
    samples = [
        *some(245, 0.1),
        *some(5, 0.9, stop=0.0008, others=7),
        *some(79, 0.1, met=True),
        *some(1, 0.9, met=True),
    ]
    found = blame(samples, P99)
    assert found.cause is Cause.SERVICE
    for part in (
        "1 of 80 requests sent before offline work stood still",
        "5 of the 250 others",
        "at most 0.8 ms",
        "found 7 others in flight",
    ):
        assert part in found.because


def test_the_service_is_to_blame_where_there_is_no_offline_work():
    assert blame(some(200, 0.9, tenant=False), P99).cause is Cause.SERVICE


def test_those_that_a_stop_alone_makes_slow_do_not_count_as_slow():
    """Their stops are too short to matter at the percentile, which is missed without them."""
    samples = [*some(196, 0.1), *some(4, 0.9), *some(60, 0.51, met=True, stop=0.02)]
    assert blame(samples, P99).cause is Cause.SERVICE


@pytest.mark.parametrize(
    ("target", "others", "cause"),
    [(P99, 99, Cause.UNKNOWN), (P99, 100, Cause.SERVICE), (P50, 19, Cause.UNKNOWN), (P50, 20, Cause.SERVICE)],
)
def test_a_few_requests_without_a_stop_are_too_few_to_compare_with(target, others, cause):
    found = blame([*some(others, 0.9), *some(40, 0.9, met=True)], target)
    assert found.cause is cause
    assert ("too few of those to compare with" in found.because) is (cause is Cause.UNKNOWN)


def test_where_the_slow_ones_are_few_and_on_both_sides_nothing_is_told():
    samples = [*some(251, 0.1), *some(2, 0.9), *some(83, 0.1, met=True), *some(2, 0.9, met=True)]
    found = blame(samples, P99)
    assert found.cause is Cause.UNKNOWN
    assert re.search(r"2 of 85 .* 2 of the 253 others: too few to tell", found.because)


def test_of_a_time_to_first_token_a_stop_takes_what_it_took():
    given = exposure(way=0.02, stop=0.01)
    sample = Sample(0.3, given, late=0.1, way=0.02, stop=0.01)
    assert ttft_samples([(outcome(10.0, ttft=0.3, lateness=0.1), given)]) == [sample]
    assert ttft_samples([(outcome(10.0, ttft=0.3, lateness=-0.1), given)])[0].late == 0.0
    assert ttft_samples([(outcome(ttft=None), given)]) == []


@pytest.mark.parametrize(("still", "stop"), [(10.4, 0.01), (10.3, 0.0), (10.2, 0.0)])
def test_of_a_time_per_token_a_stop_takes_what_it_took_after_the_first(still, stop):
    given = exposure(still=still, way=0.02)
    found = tpot_samples([(outcome(10.0, ttft=0.3, tpot=0.05, tokens=11), given)])
    assert [(sample.seconds, sample.late, sample.way, sample.stop) for sample in found] == [
        (0.05, 0.0, 0.0, pytest.approx(stop))
    ]


def test_a_request_of_one_token_has_no_time_per_token():
    assert tpot_samples([(outcome(tpot=None, tokens=1), exposure())]) == []


def ridden(number, seconds):
    return some(number, seconds, tenant=False, riders=True)


def without(number, seconds):
    return some(number, seconds, tenant=False)


def test_riders_are_to_blame_where_those_served_beside_them_are_the_slow_ones():
    found = blame([*without(100, 0.1), *ridden(88, 0.1), *ridden(12, 0.9)], P99)
    assert found.cause is Cause.TENANT
    assert "12 of 100 requests of busy times in which jobs rode in the engine, 0 of the 100 others" in found.because


@pytest.mark.parametrize(("others", "cause"), [(0, Cause.UNKNOWN), (99, Cause.UNKNOWN), (100, Cause.SERVICE)])
def test_where_jobs_rode_the_service_is_to_blame_by_the_others_alone(others, cause):
    found = blame([*ridden(200, 0.9), *without(others, 0.9)], P99)
    assert found.cause is cause
    assert "stops" not in found.because


def test_where_jobs_rode_and_the_others_are_fast_the_service_is_not_to_blame():
    """Too few are slow to say that it is riding, either."""
    found = blame([*ridden(289, 0.1), *ridden(5, 0.9), *without(100, 0.1)], P99)
    assert found.cause is Cause.UNKNOWN
    assert "too few to tell" in found.because


def before(alone, jobs, *, busy=False):
    sent = 200.0 if busy else 1.0
    pairs = [Pair(6.0 * number, *pair) for number, pair in enumerate(zip(jobs, alone, strict=True))]
    return Before(pairs, 0, Lateness(sent, sent, 1.0))


def test_the_same_requests_before_there_were_jobs_tell_whose_fault_it_is():
    jobs = [*ridden(300, 0.1), *ridden(100, 0.9)]
    assert blame(jobs, P99, before=before(jobs, jobs)).cause is Cause.SERVICE
    assert blame(jobs, P99, before=before(some(400, 0.1), jobs)).cause is Cause.TENANT


def test_with_them_exposures_need_not_be_relied_on():
    jobs = [*some(300, 0.1), *some(100, 0.9, met=True)]
    assert blame(jobs, P99, "the agent recorded nothing", before(jobs, jobs)).cause is Cause.SERVICE
    # Too few of them tell nothing.
    found = blame(jobs, P99, "the agent recorded nothing", before(jobs[-99:], jobs[-99:]))
    assert (found.cause, found.because) == (Cause.UNKNOWN, "the agent recorded nothing")


def test_a_replayer_that_was_late_is_asked_first():
    assert blame(some(200, 0.9, late=0.6), P99, before=before(some(200, 0.1), some(200, 0.9))).cause is Cause.REPLAYER


@pytest.mark.parametrize(("doubt", "cause"), [("", Cause.TENANT), ("clocks differ", Cause.SERVICE)])
def test_what_stops_took_is_offline_works_whatever_was_before(doubt, cause):
    """Where the record of them can be relied on."""
    jobs = some(200, 0.9, stop=0.026)
    assert blame(jobs, P99, doubt, before(jobs, jobs)).cause is cause
