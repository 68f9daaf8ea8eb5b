"""Which requests met offline work, from the client's times and the agent's record of the gate."""

import pytest
from outcomes import outcome

from rowen.demo.verdict.exposure import Exposure, doubt, exposures
from rowen.demo.verdict.timeline import ServedRequest, Transition

# Sent at 10, the gate closed 2 ms later, offline work stood still 1 ms after that.
BURST = Transition(closed=10.002, acknowledged=10.003, opened=12.0, latency=0.001, tenants=2)
ALONE = Exposure(
    recorded=True, tenant=False, preempted=False, met_stop=False, way=0.0, stop=0.0, still=0.0, others=0, period=1
)


def one(given, *transitions):
    return exposures([given], transitions)[0]


def test_the_first_of_a_burst_meets_the_stop():
    found = one(outcome(10.0), BURST)
    assert (found.recorded, found.tenant, found.met_stop) == (True, True, True)
    assert (found.way, found.stop, found.still) == (pytest.approx(0.002), pytest.approx(0.001), 10.003)


def test_what_its_stop_took_is_held_against_it_for_the_whole_burst():
    first, second = exposures([outcome(10.0), outcome(10.5)], [BURST])
    assert (second.tenant, second.met_stop) == (True, False)
    assert (second.way, second.stop) == (first.way, first.stop)


@pytest.mark.parametrize(
    ("moment", "preempted", "met"),
    [(10.001, True, True), (10.002, False, True), (10.0025, False, True), (10.003, False, False)],
)
def test_a_request_meets_the_stop_until_offline_work_stands_still(moment, preempted, met):
    found = exposures([outcome(10.0), outcome(moment)], [BURST])[1]
    assert (found.preempted, found.met_stop) == (preempted, met)


def test_lateness_is_no_part_of_the_way():
    late = one(outcome(9.0, lateness=1.0, seconds=2.0), BURST)
    assert (late.met_stop, late.way) == (True, pytest.approx(0.002))
    early = one(outcome(10.0, lateness=-5.0), BURST)
    assert early.way == pytest.approx(0.002)


def test_a_gate_that_closed_before_the_request_was_sent_took_no_way():
    assert one(outcome(11.0), BURST).way == 0.0


def test_a_burst_without_tenants_stops_nobody():
    assert one(outcome(10.0), Transition(10.002, 10.002, 12.0, 0.0, 0)) == ALONE


def test_a_gate_that_is_closed_still_counts():
    assert one(outcome(10.0), Transition(10.002, 10.003, None, 0.001, 1)).met_stop


@pytest.mark.parametrize(
    "transition", [Transition(8.0, 8.001, 10.0, 0.001, 1), Transition(11.0, 11.001, 12.0, 0.001, 1)]
)
def test_another_bursts_gate_is_none_of_its_own(transition):
    found = one(outcome(10.0, seconds=1.0), transition)
    assert (found.recorded, found.tenant, found.met_stop) == (False, False, False)


def test_of_two_stops_the_longer_counts():
    found = one(outcome(10.0), Transition(9.0, 9.5, 10.001, 0.5, 1), BURST)
    assert (found.met_stop, found.stop, found.still) == (True, 0.5, 10.003)


def test_others_in_flight_are_those_sent_before_and_not_yet_answered():
    outcomes = [outcome(10.0, seconds=5.0), outcome(11.0, seconds=1.0), outcome(12.0), outcome(12.5)]
    assert [found.others for found in exposures(outcomes, [])] == [0, 1, 1, 2]


def exposed(recorded=10, unrecorded=0, met=0):
    met_one = Exposure(
        recorded=True, tenant=True, preempted=True, met_stop=True, way=0.0, stop=0.0, still=1.0, others=0, period=1
    )
    nothing = Exposure(
        recorded=False, tenant=False, preempted=False, met_stop=False, way=0.0, stop=0.0, still=0.0, others=0, period=1
    )
    return [ALONE] * (recorded - met) + [met_one] * met + [nothing] * unrecorded


def served(count, preemptions=1, present=True):
    return [ServedRequest(1.0, 0.1, 0.1, preemptions, present)] * count


@pytest.mark.parametrize(("recorded", "unrecorded", "doubted"), [(9, 1, False), (8, 2, True), (0, 0, True)])
def test_the_agent_must_have_seen_nearly_every_request(recorded, unrecorded, doubted):
    assert bool(doubt(exposed(recorded, unrecorded), [])) is doubted


def test_what_is_missing_is_told():
    assert doubt(exposed(8, 2), []) == "the agent recorded the gate for 8 of 10 requests only"


@pytest.mark.parametrize(
    ("here", "there", "doubted"),
    [(0, 3, False), (0, 4, True), (3, 0, False), (4, 0, True), (40, 32, False), (40, 31, True)],
)
def test_engine_and_agent_must_count_the_same_stops(here, there, doubted):
    assert bool(doubt(exposed(100, met=here), served(there))) is doubted


def test_only_stops_of_offline_work_are_counted():
    assert doubt(exposed(100), [*served(50, preemptions=0), *served(50, present=False)]) == ""


@pytest.mark.parametrize(
    ("riding", "exposed"),
    [
        ([], [False, False, False]),
        ([(9.0, 10.0)], [False, False, False]),
        ([(9.0, 10.1)], [True, True, False]),
        # In its busy time, before it was sent: it may have waited for what was late by that.
        ([(10.5, 10.6)], [True, True, False]),
        ([(11.5, 11.6)], [False, True, False]),
        ([(12.5, 13.0)], [False, False, False]),
        ([(0.0, 60.0)], [True, True, True]),
    ],
)
def test_a_ride_counts_for_the_requests_of_its_busy_time(riding, exposed):
    """The first two overlap, the third comes later."""
    outcomes = [outcome(10.0, seconds=1.0), outcome(10.8, seconds=1.2), outcome(20.0)]
    assert [found.riders for found in exposures(outcomes, [], riding)] == exposed
