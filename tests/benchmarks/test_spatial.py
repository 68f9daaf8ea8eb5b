"""The benchmark of shares says what was measured."""

import json
from dataclasses import asdict

import pytest
import spatial
from coserving.measuring import Alone
from coserving.result import Run
from coserving.share_picture import draw, share_steps
from coserving.shares import Sample, part_open, shared_fraction
from coserving.slowdowns import SLOWDOWNS_ENV, Beside, log_slowdowns, read_slowdowns, slowdown_figures
from reporting.report import Missing, report
from spatial import Measured, figures_of, mean_ratio

from rowen.crds.ride.terms import LatencyBound, SpatialTerms
from rowen.demo.traffic.replay import Outcome
from rowen.node_agent.devices.counts import DeviceCounts
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.spatial import SharePlanner

SPEED = Alone(ttft=0.1, tpot=0.02)


def counts(*, gate_open, share=None):
    return DeviceCounts(0.0, 0.0, 0.0, 0, 0, 0.0, 0.0, gate_open, 1, 0, 0, (), share=share)


def run(arm, load=1.0, tokens=100.0, kept=10):
    outcomes = tuple(Outcome(0.0, 0.0, 1.0, 0.1, 0.02 if number < kept else 1.0, 32, None) for number in range(10))
    return Run(arm, load, 0.5, 0, 10.0, tokens, outcomes)


def test_ratios_are_means_over_the_loads_and_the_best_of_each_kind_counts():
    runs = [
        run("rowen", 1.0, 400), run("separate_25", 1.0, 100), run("separate_75", 1.0, 200), run("static_50", 1.0, 100),
        run("rowen", 2.0, 100), run("separate_25", 2.0, 400, kept=2), run("separate_75", 2.0, 25),
        run("static_50", 2.0, 50), run("alone", 1.0), run("alone", 2.0), run("preempt", 1.0, 40), run("preempt", 2.0),
    ]  # fmt: skip
    samples = {1.0: [Sample(0.0, 0.5, True), Sample(0.1, 0.0, True), Sample(0.2, 1.0, False)], 2.0: []}
    figures = figures_of(Measured(SPEED, runs, samples, [Beside(0.0, 3, 0.03, 0.02)]))
    assert figures["vs_separate"] == ((2 + 4) / 2, "ratio")
    assert figures["vs_static"] == ((4 + 2) / 2, "ratio")
    assert figures["vs_preempt_load_1"] == (10.0, "ratio")
    assert figures["shared_part_load_1"] == (0.25, "fraction")
    assert figures["slowdown_error_mean"] == (pytest.approx(0.5), "fraction")
    assert set(spatial.BARS) <= set(figures)


def test_a_kind_that_learned_nothing_under_a_load_gives_no_mean():
    table = {("rowen", 1.0): run("rowen"), ("static_50", 1.0): run("static_50", tokens=0)}
    points = spatial.points(list(table.values()), SPEED.bounds)
    assert isinstance(mean_ratio(points, "static_"), Missing)


@pytest.mark.parametrize(
    ("device", "part"),
    [
        (counts(gate_open=False, share=0.3), 0.0),
        (counts(gate_open=True), 1.0),
        (counts(gate_open=True, share=0.3), 0.3),
    ],
)
def test_what_offline_work_may_use(device, part):
    assert part_open(device) == part


def test_time_without_requests_is_not_shared():
    assert shared_fraction([Sample(0.0, 1.0, False)]) == 0.0


def test_the_picture_shows_the_share_under_the_highest_load(tmp_path):
    runs = [run(arm, load) for arm in spatial.ARMS for load in (1.0, 2.0)]
    samples = {1.0: [Sample(0.0, 0.1, True)], 2.0: [Sample(0.0, 0.5, True), Sample(30.0, 0.9, True)]}
    found = Measured(SPEED, runs, samples, [])
    table = spatial.points(runs, SPEED.bounds)
    others = {arm: spatial.arm_figures(table, arm) for arm in spatial.ARMS if arm != "rowen"}
    obj = report("spatial", 0, figures_of(found), others)
    obj["shares"] = {f"{load:g}": [asdict(sample) for sample in own] for load, own in samples.items()}
    obj = json.loads(json.dumps(obj))
    assert share_steps(obj) == ("2", [(0.0, 0.5)])
    # Another repeat begins anew.
    obj["shares"]["2"] += [asdict(Sample(at, 0.2, True)) for at in (0.0, 5.0, 40.0)]
    assert share_steps(obj) == ("2", [(0.0, 0.5)])
    draw(obj, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_a_slowdown_is_predicted_before_it_is_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(SharePlanner, "observe_beside", SharePlanner.observe_beside)
    monkeypatch.setenv(SLOWDOWNS_ENV, str(tmp_path / "slowdowns"))
    log_slowdowns()
    bound = LatencyBound(percentile=95.0, seconds=1.0)
    planner, load = SharePlanner(SpatialTerms(ttft=bound, tpot=bound), Predictor()), Load(2, 100)
    for _ in range(200):
        planner.observe_alone(load, 0.02)
    for _ in range(50):
        planner.observe_beside(load, 0.06, 5)
    first, *_, last = read_slowdowns(tmp_path / "slowdowns", since=0.0)
    assert (first.tenths, first.measured, first.decode_rows, first.decode_context) == (5, 0.06, 2, 100)
    assert first.alone == pytest.approx(0.02, rel=0.05)
    # Nothing is known of half of the device yet: as if all of that were the engine's.
    assert first.predicted == pytest.approx(0.04, rel=0.05)
    assert last.predicted == pytest.approx(0.06, rel=0.05)
    assert read_slowdowns(tmp_path / "slowdowns", since=last.at) == []


def test_errors_of_slowdowns_are_told_by_share():
    steps = [Beside(0.0, 3, 0.03, 0.02), Beside(0.0, 3, 0.02, 0.02), Beside(0.0, 5, 0.03, 0.04)]
    assert slowdown_figures(steps) == {
        "slowdown_error_mean": (pytest.approx(0.25), "fraction"),
        "slowdown_steps": (3, "steps"),
        "slowdown_3_tenths_error_mean": (pytest.approx(0.25), "fraction"),
        "slowdown_3_tenths_steps": (2, "steps"),
        "slowdown_5_tenths_error_mean": (pytest.approx(0.25), "fraction"),
        "slowdown_5_tenths_steps": (1, "steps"),
    }
    assert slowdown_figures([]) == {}
