"""The benchmark of stops with a few requests, on a real device."""

import json

import pytest
from preempt import Plan, Samples, run
from preemption.bench import Served
from preemption.record import Run

from rowen.node_agent.devices.counts import Closing

MS = 1_000_000
RUNS = [Run(0, 10 * MS), Run(40 * MS, 60 * MS), Run(90 * MS, 95 * MS)]


def closing(closed, acknowledged, opened, tenants=1):
    seconds = [time if time is None else time / 1000 for time in (closed, acknowledged, opened)]
    return Closing(1, *seconds, tenants=tenants, for_request=True)


def test_stops_are_counted_by_what_tenants_and_engine_wrote_down():
    samples = Samples(acknowledged=True)
    closings = [closing(9, 10, 39), closing(59, 60, 85), closing(60, 61, 62, tenants=0), closing(70, None, None)]
    requests = [(9 * MS, 30 * MS), (9 * MS, 70 * MS), (41 * MS, 59 * MS)]
    samples.add(Served(requests, RUNS, closings, [1, 2, 0]))
    assert samples.stops == [1, 2, 0]
    assert samples.stops_of_agent == [1, 2, 0]
    assert samples.latencies == pytest.approx([1, 1])
    assert samples.ran_behind_gate == []
    assert samples.paused_again == [{"pauses_ms": [1, 31, 51, 81], "closed_ms": [0, 1, 50, 51, 51, 52, 61]}]
    samples.add(Served([], RUNS, [closing(8, 9.5, 39), closing(89, 90, None)], []))
    assert samples.ran_behind_gate == pytest.approx([0.5, 5])
    assert samples.latencies == pytest.approx([1, 1, 1.5, 1])
    assert samples.latency_figures("_x")["ran_behind_gate_x"] == (2.0, "1")
    assert samples.raw()["ran_behind_gate_ms"] == [0.5, 5.0]


@pytest.mark.parametrize(("opened", "behind"), [(51.9, []), (52, [2.0]), (53, [3.0])])
def test_a_stop_too_short_for_the_notes_says_nothing(opened, behind):
    samples = Samples(acknowledged=True)
    samples.add(Served([], RUNS, [closing(49, 50, opened)], []))
    assert samples.latencies == pytest.approx([1])
    assert samples.ran_behind_gate == pytest.approx(behind)


def test_a_tenant_that_does_not_acknowledge_stops_when_it_was_seen_last():
    samples = Samples(acknowledged=False)
    closings = [closing(4, 4, 39, tenants=0), closing(41, 41, 50, tenants=0), closing(91, 91, None, tenants=0)]
    samples.add(Served([], RUNS, closings, []))
    # One never stopped for it: the time to the gate's opening is the least that it took.
    assert samples.latencies == pytest.approx([6, 9])
    assert samples.never_stopped == pytest.approx([9])
    assert samples.figures()["never_stopped"] == (1.0, "1")
    assert samples.raw()["never_stopped_ms"] == [9.0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_part_gives_its_figures():
    # Of so many requests some last long enough for the kernel's stop on any machine.
    plan = Plan(requests=12, seconds=60.0, crowd_requests=2, backstop_requests=12, part_seconds=30.0, crowds=((2, 2),))
    printed = json.loads(json.dumps(run(plan, 0)))
    figures = printed["figures"]
    assert figures["stops"]["value"] > 0
    assert figures["preemptions_per_request_max_agent"]["value"] == 1
    assert figures["stops_tenants_2_threads_2"]["value"] > 0
    for kind in ("signal_blocked", "not_attached"):
        row = figures[f"stop_latency_ms_p99_backstop_{kind}"]
        if row["value"] is not None:
            assert figures[f"backstops_{kind}"]["value"] > 0
            stops = printed["repeats"][f"backstop_{kind}"]["stop_ms"]
            assert len(stops) == figures[f"stops_backstop_{kind}"]["value"]
            assert max(stops) == pytest.approx(figures[f"stop_latency_ms_max_backstop_{kind}"]["value"], abs=1e-3)
    assert set(printed["baselines"]) == {"wake_every_gap", "engine_step"}
    assert len(printed["repeats"]["rowen"]["stop_ms"]) == figures["stops"]["value"]
    assert len(printed["repeats"]["tenants_2_threads_2"]["preemptions"]) > 0
    assert sum(count for _, count in printed["repeats"]["jitter"]) > 100
    never = printed["baselines"]["engine_step"]["never_stopped"]["value"]
    assert never == len(printed["repeats"]["engine_step"]["never_stopped_ms"])
    assert printed["baselines"]["wake_every_gap"]["preemptions_per_request_max_agent"]["value"] > 1
