"""The simulation of mixed training and serving, on workloads small enough to work out by hand."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import lemix
import numpy as np
import pytest
from lemix import Ratio, ablated, grid, grid_row, separate, slo_ratio, throughput_ratio
from mixing.dispatch import Parts, weights
from mixing.node import Look, Node, Start
from mixing.setup import LLAMA_13B, STAGES, Machine, Model
from mixing.simulation import ABLATIONS, BASELINES, Outcome, Simulation
from mixing.workload import TASKS, Point, Workload, drawn

from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task

# A sequence of mean length, 10, takes 1 s forward and 2 s backward on each stage; memory holds 80 tokens.
MACHINE = Machine(Model("small", 2.0, 4.0), mean_length=10.0, mean_work=100.0)
POINT = Point("poisson", LLAMA_13B, 25.0, 0.5)


def workload(*tasks, machine=MACHINE):
    return Workload(tasks, np.ones((len(tasks), 2, STAGES)), machine, StageTime(0.01, 0.02))


def request(arrival, length=10):
    return Task(arrival, length)


def training(arrival, length=10):
    return Task(arrival, length, trains=True)


def test_a_stage_pass_has_a_fixed_part():
    # 0.1 of a second whatever the length, 0.9 for 100 squared tokens.
    assert MACHINE.pass_seconds(100.0, backward=False, noise=1.0) == pytest.approx(1.0)
    assert MACHINE.pass_seconds(400.0, backward=False, noise=1.0) == pytest.approx(3.7)
    assert MACHINE.pass_seconds(100.0, backward=True, noise=1.5) == pytest.approx(3.0)


def test_a_request_waits_for_its_batch_and_goes_through():
    # T_w is 1 s; then 1 s on each stage: 3 s, within the SLO of 10 s.
    found = Simulation(workload(request(0.0)), "round_robin").run()
    assert found.throughput == pytest.approx(1 / 3)
    assert found.attainment == 1.0
    # 2 s of 8 stages times 3 s.
    assert found.utilisation == pytest.approx(2 / 24)
    assert found.planning_ms == 0.0


def test_training_goes_back_through_the_stages():
    # 1 + 1 forward, 2 + 2 backward, without any wait.
    assert Simulation(workload(training(0.0)), "separate_25").run().throughput == pytest.approx(1 / 6)


def test_what_is_separate_stays_separate():
    # Two training tasks on the one node for them: the second one's forward pass on the first stage is from 1 to 2. On
    # the second stage the backward pass (2, 4) goes first: forward (4, 5), backward (5, 7), on the first stage (7, 9).
    tasks = workload(training(0.0), training(0.0))
    assert Simulation(tasks, "separate_25").run().throughput == pytest.approx(2 / 9)
    assert Simulation(tasks, "separate_50").run().throughput == pytest.approx(2 / 6)
    assert Simulation(tasks, "round_robin").run().throughput == pytest.approx(2 / 6)


def test_requests_that_are_late_are_counted():
    # On the one serving node of `separate_75`: batches of 4, which take 0.1 + 4·0.9 = 3.7 s a stage. They end at 7.4
    # and 11.1 s: the second four are later than 10 s.
    found = Simulation(workload(*[request(0.0)] * 8), "separate_75").run()
    assert found.attainment == pytest.approx(0.5)
    assert found.throughput == pytest.approx(8 / 11.1)


def node(tasks, *, aware):
    return Node(workload(*tasks), MACHINE.batches, memory_aware=aware)


def test_without_room_an_aware_node_waits_and_then_offloads():
    tasks = [training(0.0, 30) for _ in range(3)]
    aware = node(tasks, aware=True)
    for number in range(3):
        aware.put(number, 0.0)
    # The threshold is 0.9·80 = 72 tokens: two have room.
    for _ in range(2):
        start = aware.begin(0, 0.0)
        assert isinstance(start, Start)
        assert start.seconds == pytest.approx(8.2)
        aware.end(start)
    assert aware.begin(0, 5.0) == Look(pytest.approx(5.1))
    assert aware.begin(0, 5.9) == Look(pytest.approx(6.0))
    # T_max is 1 s. To move 30 tokens takes 0.25·30/10 = 0.75 s.
    start = aware.begin(0, 6.0)
    assert isinstance(start, Start)
    assert start.seconds == pytest.approx(8.95)
    assert aware.stages[0].used == 60.0


def test_without_room_another_node_overruns():
    tasks = [training(0.0, 30) for _ in range(3)]
    careless = node(tasks, aware=False)
    for number in range(3):
        careless.put(number, 0.0)
    seconds = []
    for _ in range(3):
        start = careless.begin(0, 0.0)
        assert isinstance(start, Start)
        seconds.append(start.seconds)
        careless.end(start)
    # 10 tokens beyond 80: 1 s.
    assert seconds == pytest.approx([8.2, 8.2, 9.2])
    assert careless.stages[0].used == 90.0


def test_memory_is_given_back():
    tasks = [training(0.0), request(0.0)]
    both = node(tasks, aware=True)
    for number in range(2):
        both.put(number, 0.0)
    now, finished = 0.0, 0
    while finished < 2:
        starts = [start for at in range(STAGES) if isinstance(start := both.begin(at, now), Start)]
        finished += sum(both.end(start) for start in starts)
        now += 1.0
        assert now < 20.0
    assert [stage.used for stage in both.stages] == [0.0, 0.0]


def test_lemix_keeps_training_back_while_requests_are_late():
    # Four nodes full of requests: training goes on after them, so they are as fast as without it.
    requests = [request(0.0) for _ in range(32)]
    mixed = workload(*requests, *[training(0.001) for _ in range(8)])
    alone = Simulation(workload(*requests), "lemix").run()
    assert Simulation(mixed, "lemix").run().attainment == alone.attainment
    assert Simulation(mixed, "without_deferral").run().attainment <= alone.attainment


@pytest.mark.parametrize("arm", [*BASELINES, "lemix", *ABLATIONS])
def test_every_arm_does_the_same_for_the_same_seed(arm):
    whole = drawn(POINT, 3)
    some = replace(whole, tasks=whole.tasks[:150])
    first, second = Simulation(some, arm).run(), Simulation(some, arm).run()
    assert replace(first, planning_ms=0.0, policy_ms=0.0) == replace(second, planning_ms=0.0, policy_ms=0.0)
    assert first.throughput > 0.0


def test_a_seed_makes_a_workload():
    one, same, other = drawn(POINT, 3), drawn(POINT, 3), drawn(POINT, 4)
    assert one.tasks == same.tasks
    assert (one.noise == same.noise).all()
    assert one.time == same.time
    assert one.tasks != other.tasks
    assert len(one.tasks) == TASKS


@pytest.mark.parametrize("arrivals", ["poisson", "code", "conv"])
def test_a_workload_has_the_rate_and_the_part_of_training_that_it_says(arrivals):
    found = drawn(replace(POINT, arrivals=arrivals), 0)
    times = [task.arrival for task in found.tasks]
    assert times == sorted(times)
    assert TASKS / times[-1] == pytest.approx(25.0, rel=0.15)
    assert sum(task.trains for task in found.tasks) / TASKS == pytest.approx(0.5, abs=0.07)
    # Profiled on other tasks, whose mean pass is the table's: the fixed part counts for all.
    mean_pass = found.time.forward * found.machine.mean_work
    assert mean_pass == pytest.approx(LLAMA_13B.forward / STAGES, rel=0.2)


@pytest.mark.parametrize(("part", "arm"), [(0.1, 25), (0.25, 25), (0.5, 50), (0.75, 75), (0.9, 75)])
def test_the_papers_partition(part, arm):
    assert separate(part) == f"separate_{arm}"


def test_an_ablation_leaves_out_one_part():
    assert set(ABLATIONS) == {f"without_{name}" for name in Parts.__slots__}
    for name, parts in ABLATIONS.items():
        assert [part for part in Parts.__slots__ if not getattr(parts, part)] == [name.removeprefix("without_")]


def test_without_consistency_lengths_do_not_count():
    found = drawn(POINT, 0)
    assert weights(found, Parts()).consistency > 0.0
    assert weights(found, Parts(consistency=False)).consistency == 0.0


def outcomes(throughputs, attainments):
    pairs = zip(throughputs, attainments, strict=True)
    return [Outcome(throughput, attainment, 0.5, 0.0, 0.0) for throughput, attainment in pairs]


def test_ratios_are_of_the_same_seed():
    runs = {
        "lemix": outcomes([2.0, 6.0, 3.0], [0.9, 0.8, 0.6]),
        "separate_50": outcomes([1.0, 2.0, 3.0], [0.3, 0.4, 0.6]),
    }
    assert throughput_ratio(POINT, runs) == Ratio((2.0, 3.0, 1.0))
    assert throughput_ratio(POINT, runs).middle == 2.0
    assert slo_ratio(POINT, runs).values == pytest.approx((3.0, 2.0, 1.0))
    row = grid_row(POINT, runs)
    assert (row["separate"], row["throughput_vs_separate"]) == ("separate_50", 2.0)
    assert row["arms"]["lemix"]["throughput"] == [2.0, 6.0, 3.0]


def test_many_times_nothing_is_no_ratio():
    ours = outcomes([1.0] * 3, [0.5] * 3)
    assert slo_ratio(POINT, {"lemix": ours, "separate_50": outcomes([1.0] * 3, [0.05, 0.09, 0.2])}) is None
    assert slo_ratio(POINT, {"lemix": ours, "separate_50": outcomes([1.0] * 3, [0.0, 0.2, 0.2])}) is None
    assert slo_ratio(POINT, {"lemix": ours, "separate_50": outcomes([1.0] * 3, [0.05, 0.1, 0.2])}) is not None


def test_the_grid_has_both_traces():
    points = grid(quick=False)
    assert len(points) == len({point.name for point in points})
    assert {point.arrivals for point in points} == {"poisson", "code", "conv"}
    assert any(map(ablated, grid(quick=True)))


def canned(point, seeds, throughput, attainment):
    """Each arm alike, and LeMix so many times as good."""
    others = {arm: outcomes([1.0] * len(seeds), [0.3] * len(seeds)) for arm in BASELINES}
    return {**others, "lemix": outcomes([throughput] * len(seeds), [0.3 * attainment] * len(seeds))}


@pytest.mark.parametrize(
    ("throughput", "attainment", "planning_ms", "missed"),
    [
        (3.53, 2.2, 0.14, set()),
        (3.5, 2.2, 0.14, {"throughput_vs_separate"}),
        (3.6, 2.1, 0.14, {"slo_vs_separate"}),
        (3.6, 2.2, 0.15, {"plan_ms_mean"}),
    ],
)
def test_worse_than_the_paper_misses_a_bar(monkeypatch, throughput, attainment, planning_ms, missed):
    monkeypatch.setattr(lemix, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(lemix, "grid", lambda quick: [POINT])
    monkeypatch.setattr(lemix, "measured", partial(canned, throughput=throughput, attainment=attainment))
    monkeypatch.setattr(lemix, "ablated", lambda point: point == POINT)
    monkeypatch.setattr(lemix, "ABLATIONS", {})
    monkeypatch.setattr(lemix, "planning", lambda seeds: {"plan_ms_mean": (planning_ms, "ms")})
    made = lemix.run(6, 0, quick=True)
    assert made["bars"].keys() == lemix.BARS.keys()
    assert {name for name, bar in made["bars"].items() if bar["kept"] is not True} == missed
