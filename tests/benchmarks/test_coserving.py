import itertools
import json
import random
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import coserve
import deferral
import pytest
import slo_sweep
from coserving import sweep_picture
from coserving.arms import DYNAMIC, arms_of
from coserving.chunks import PART, Answering, Chunks, affordable, may_go_on
from coserving.interval import LEAST, MOST, DynamicInterval
from coserving.load import Size, Traffic, poisson
from coserving.measuring import Alone
from coserving.picture import PANELS, draw, lines
from coserving.reports import Report, read_reports
from coserving.result import Bounds, Run, arm_figures, main_figures, points, versus
from coserving.roofline import left_figures, linear_weights, most_tokens, roofline_figures
from coserving.sweep import Target, attainments, over_best, speed_at, sweep_figures
from coserving.turns import Mode, Turns
from reporting.report import Missing, report

from rowen.demo.samples import SHAPE, Shape
from rowen.demo.traffic.replay import Outcome

BOUNDS = Bounds(ttft=1.0, tpot=0.1)
SIZE = Size(prompt=(4, 9), output=3)


def outcome(ttft=0.5, tpot=0.05, error=None):
    return Outcome(0.0, 0.0, 1.0, ttft, tpot, 3, error)


def run(arm, load=1.0, tokens=100.0, kept=10, of=10, block=0):
    outcomes = [outcome()] * kept + [outcome(tpot=0.2)] * (of - kept)
    return Run(arm, load, load / 2, block, 10.0, tokens, tuple(outcomes))


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (outcome(), True),
        (outcome(ttft=1.01), False),
        (outcome(tpot=0.11), False),
        (outcome(tpot=None), True),
        (outcome(error="gone"), False),
        (outcome(ttft=None), False),
    ],
)
def test_a_request_keeps_both_bounds_or_none(one, kept):
    assert BOUNDS.kept(one) is kept


def test_repeats_of_an_arm_are_one_point():
    table = points([run("rowen", tokens=100), run("rowen", tokens=300, kept=5, block=1)], BOUNDS)
    point = table["rowen", 1.0]
    assert (point.speed, point.attainment, point.requests, point.errors) == (20.0, 0.75, 20, 0)
    # Each request counts once, and a repeat without any says nothing.
    few = points([run("rowen", kept=4, of=5), run("rowen", kept=0, of=0, block=1)], BOUNDS)
    assert few["rowen", 1.0].attainment == 0.8
    assert point.tpot_p99 == pytest.approx(0.2)


def test_of_divisions_that_keep_the_bounds_as_well_the_fastest_learner_counts():
    runs = [
        run("rowen", tokens=400, kept=19, of=20),
        run("separate_25", tokens=300, kept=2),
        run("separate_50", tokens=200, kept=9),
        run("separate_75", tokens=100),
    ]
    assert versus(points(runs, BOUNDS), 1.0) == 2.0


def test_where_no_division_keeps_the_bounds_the_one_that_keeps_them_most_often_counts():
    runs = [run("rowen", tokens=400), run("separate_25", tokens=300, kept=1), run("separate_75", tokens=100, kept=8)]
    assert versus(points(runs, BOUNDS), 1.0) == 4.0


def test_a_division_without_any_learning_gives_no_ratio():
    assert isinstance(versus(points([run("rowen"), run("separate_75", tokens=0)], BOUNDS), 1.0), Missing)


def test_main_figures_are_the_worst_over_the_loads():
    runs = [
        run(arm, load, tokens, kept)
        for load, rows in {
            1.0: {"alone": (0, 10), "rowen": (400, 10), "separate_75": (100, 10)},
            2.0: {"alone": (0, 9), "rowen": (300, 9), "separate_75": (150, 9)},
        }.items()
        for arm, (tokens, kept) in rows.items()
    ]
    figures = main_figures(runs, BOUNDS, no_load_speed=50.0)
    assert figures["finetune_vs_separate"] == (2.0, "ratio")
    assert figures["slo_attainment"] == (0.9, "fraction")
    assert figures["peak_fraction"] == (30.0 / 50.0, "fraction")
    assert figures["finetune_load_2"] == (30.0, "tokens/s")
    assert set(coserve.BARS) <= set(figures)


def test_the_roofline_is_the_peak_less_what_requests_need():
    weights = linear_weights(Shape(layers=2, hidden=8, intermediate=16, heads=4, key_value_heads=2))
    assert weights == 2 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16)
    own = linear_weights(SHAPE)
    assert most_tokens(own * 100.0, 10.0) == pytest.approx((100 - 20) / 4)
    assert most_tokens(own * 10.0, 10.0) == 0.0


def test_how_much_of_the_roofline_it_was():
    runs = [run("rowen", tokens=100), run("rowen", tokens=300, block=1), run("alone", tokens=0)]
    runs = [replace(one, served_tokens=590.0) for one in runs]
    peak = linear_weights(SHAPE) * 1000.0
    each = 59.0
    figures = roofline_figures(runs, peak)
    assert figures["roofline_load_1"][0] == pytest.approx((1000 - 2 * each) / 4)
    assert figures["of_roofline_load_1"][0] == pytest.approx(20 / ((1000 - 2 * each) / 4))


def test_an_arm_whose_requests_all_failed_has_no_latency():
    failed = Run("rowen", 1.0, 0.5, 0, 10.0, 5.0, (outcome(error="gone"),))
    figures = arm_figures(points([failed], BOUNDS), "rowen")
    assert isinstance(figures["ttft_p99_load_1"][0], Missing)
    assert figures["errors_load_1"] == (1, "requests")


def test_raw_values_go_into_the_report():
    row = run("rowen", kept=9).row(BOUNDS)
    assert json.loads(json.dumps(row))["attainment"] == 0.9
    assert len(row["ttft_ms"]) == 10


def test_the_picture_shows_every_arm(tmp_path):
    runs = [run(arm, load) for arm in ("alone", "rowen") for load in (1.0, 2.0)]
    table = points(runs, BOUNDS)
    obj = report("coserve", 0, arm_figures(table, "rowen"), {"alone": arm_figures(table, "alone")})
    assert lines(obj, "finetune_load_") == {"rowen": [(1, 10.0), (2, 10.0)], "alone": [(1, 10.0), (2, 10.0)]}
    assert all(lines(obj, panel)["rowen"] for panel in PANELS)
    draw(obj, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_requests_come_at_random_and_the_same_each_time():
    requests = poisson(50.0, 20.0, SIZE, "3")
    assert requests == poisson(50.0, 20.0, SIZE, "3")
    assert requests != poisson(50.0, 20.0, SIZE, "4")
    assert 850 < len(requests) < 1150
    assert all(0 < request.arrival < 20 and 4 <= len(request.prompt) <= 9 for request in requests)


def test_traffic_goes_by_load_block_and_seed_and_the_rate_moves_all_of_it():
    traffic = Traffic(2.0, 1.0, 400.0, SIZE, block=1, seed=5)
    requests = traffic.requests()
    faster = Traffic(2.0, 2.0, 200.0, SIZE, block=1, seed=5).requests()
    assert [request.prompt for request in faster] == [request.prompt for request in requests]
    assert [request.arrival for request in faster] == pytest.approx([request.arrival / 2 for request in requests])
    others = ({"load": 3.0}, {"block": 2}, {"seed": 6})
    assert all(replace(traffic, **changed).requests() != requests for changed in others)
    assert replace(traffic, rate=0.0).requests() == []


def test_a_report_that_is_being_written_is_left_out(tmp_path):
    path = tmp_path / "reports"
    assert read_reports(path) == []
    path.write_text("1.5 10\n2.5 2")
    assert read_reports(path) == [Report(1.5, 10)]


def seconds_per_token(chunk, step, bound, tokens=32):
    """Of a request whose engine grants what it can afford, and the chunks that came meanwhile."""
    now, chunks = 0.0, 0
    for number in range(1, tokens):
        while affordable([Answering(now, number)], chunk, step, bound):
            now, chunks = now + chunk, chunks + 1
        now += step
    return now / (tokens - 1), chunks


@pytest.mark.parametrize("chunk", [0.01, 0.1, 0.5])
def test_chunks_use_their_part_of_the_bound_up_and_no_more(chunk):
    each, chunks = seconds_per_token(chunk, step=0.03, bound=0.1)
    assert each <= PART * 0.1
    # Another one would have been too many.
    assert each + chunk / 31 > PART * 0.1
    assert chunks


def test_chunks_that_steps_leave_no_room_for_are_not_granted():
    assert seconds_per_token(0.05, step=0.1, bound=0.1) == (pytest.approx(0.1), 0)


def test_a_chunk_waits_for_first_tokens_and_for_whoever_cannot_afford_it():
    rich, poor, new = Answering(0.3, 10), Answering(0.85, 10), Answering(0.0, 0)
    assert affordable([rich], 0.1, 0.05, 0.1)
    assert not affordable([rich, poor], 0.1, 0.05, 0.1)
    assert not affordable([rich, new], 0.1, 0.05, 0.1)


def test_a_chunk_is_expected_to_take_as_long_as_the_second_longest_until_that_is_long_ago():
    chunks = Chunks()
    assert chunks.expected(0.0) == 0.0
    for ended, seconds in ((1.0, 0.1), (2.0, 5.0), (3.0, 0.2)):
        chunks.observe(ended - seconds, ended)
    # One stall says nothing.
    assert chunks.expected(4.0) == pytest.approx(0.2)
    chunks.observe(4.0, 8.0)
    assert chunks.expected(8.5) == pytest.approx(4.0)
    # Else nobody could afford one ever after.
    assert chunks.expected(17.5) == pytest.approx(4.0)
    assert chunks.expected(99.0) == pytest.approx(0.1)


def test_a_burst_ends_within_a_quarter_of_the_bound_of_the_first_token():
    assert may_go_on(0.125, 0.125, 1.0)
    assert not may_go_on(0.125, 0.126, 1.0)


class CountedTurns(Turns):
    """Whose tuner takes no time; off after a few iterations."""

    grants = 0

    def grant(self):
        self.grants += 1
        if self.grants == 5:
            self.mode = Mode.FREE


@pytest.mark.parametrize(("ttft_bound", "grants"), [(0.0, 1), (1000.0, 5)])
def test_an_engine_ends_a_burst_that_all_can_afford_but_not_before_a_chunk(tmp_path, ttft_bound, grants):
    pytest.importorskip("vllm")
    from coserving.turn_scheduler import TurnScheduler

    turns = CountedTurns(tmp_path / "turns")
    turns.mode, turns.bound, turns.ttft_bound = Mode.TURNS, 0.1, ttft_bound
    scheduler = TurnScheduler.__new__(TurnScheduler)
    scheduler.requests, scheduler._first, scheduler._step_seconds = {}, {}, 0.0
    scheduler._grant(turns, Chunks())
    assert turns.grants == grants


def test_every_way_of_sharing_has_an_arm():
    arms = arms_of(BOUNDS)
    assert {(arm.every, arm.bounds) for arm in arms.values() if arm.mode is Mode.TURNS} == {
        (64, None), (128, None), (DYNAMIC, None), (DYNAMIC, BOUNDS)
    }  # fmt: skip
    for part in (25, 50, 75):
        arm = arms[f"separate_{part}"]
        assert arm.server_part + arm.tuner_part == 1.0
    assert [name for name, arm in arms.items() if arm.riding] == ["rowen", "preempt"]


def turns_of(interval, steps, **seen):
    return [step for step in range(steps) if interval.step(**seen)]


def test_without_pressure_the_interval_stays_short():
    taken = turns_of(DynamicInterval(), 1000, queued=0, arrived=0, completed=0)
    assert taken[0] == LEAST - 1
    assert all(later - earlier <= 2.2 * LEAST for earlier, later in itertools.pairwise(taken))


def test_under_pressure_fine_tuning_has_fewer_turns():
    calm = turns_of(DynamicInterval(), 5000, queued=0, arrived=0, completed=0)
    pressed = turns_of(DynamicInterval(), 5000, queued=40, arrived=9, completed=0)
    assert 0 < len(pressed) < len(calm)
    assert max(later - earlier for earlier, later in itertools.pairwise(pressed)) >= MOST


class Tuner:
    """One that counts its iterations."""

    def __init__(self, turns):
        self.iterations, self._turns, self._ended = 0, turns, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            self.iterations += 1
            time.sleep(0.001)
            self._turns.pass_on()

    def end(self):
        self._ended.set()
        self._turns.mode = Mode.FREE
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def turns(tmp_path):
    return Turns(tmp_path / "turns")


@pytest.fixture
def tuner(turns):
    made = Tuner(turns)
    yield made
    made.end()


def wait(question):
    end = time.monotonic() + 20
    while not question():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_tuner_that_is_held_stands_still_from_the_end_of_an_iteration_on(turns, tuner):
    wait(lambda: turns.parked)
    assert tuner.iterations == 1
    turns.mode = Mode.FREE
    wait(lambda: tuner.iterations > 3)
    turns.mode = Mode.HELD
    wait(lambda: turns.parked)


def test_between_an_engines_steps_a_tuner_has_the_iterations_that_it_was_granted(turns, tuner):
    turns.mode = Mode.TURNS
    wait(lambda: tuner.iterations > 2)
    turns.take()
    before = tuner.iterations
    assert turns.parked
    for granted in (1, 2):
        turns.grant()
        turns.take()
        assert tuner.iterations == before + granted
    turns.busy = False
    wait(lambda: tuner.iterations > before + 4)


def test_the_page_says_by_what_iterations_come(turns):
    assert (turns.every, turns.bound, turns.ttft_bound) == (DYNAMIC, None, 0.0)
    turns.every, turns.bound, turns.ttft_bound = 64, 0.125, 0.5
    assert (turns.every, turns.bound, turns.ttft_bound) == (64, 0.125, 0.5)
    turns.bound = None
    assert (turns.every, turns.bound) == (64, None)


def test_an_engine_waits_for_nobody_when_turns_are_off(turns):
    turns.mode = Mode.FREE
    turns.take()
    turns.grant()


def target(metric, factor, ttft=1.0, tpot=0.1):
    return Target(metric, factor, Bounds(ttft, tpot))


def test_at_a_target_the_fastest_setting_that_keeps_it_counts():
    fast, slow = run("spatial_75", tokens=300, kept=5), run("spatial_25", tokens=100)
    assert speed_at([fast, slow], BOUNDS, 95.0) == 10.0
    assert speed_at([fast, slow], Bounds(ttft=1.0, tpot=0.3), 95.0) == 30.0
    assert speed_at([fast, slow], Bounds(ttft=0.1, tpot=0.3), 95.0) == 0.0


def test_repeats_of_a_setting_count_together():
    # Of 40 requests 2 are late: as many as the percentile allows, though all are in one block.
    runs = [run("spatial_25", tokens=100, of=20, kept=18), run("spatial_25", tokens=300, of=20, kept=20, block=1)]
    assert speed_at(runs, BOUNDS, 95.0) == 20.0
    assert speed_at(runs[:1], BOUNDS, 95.0) == 0.0
    late = [*runs, run("spatial_25", tokens=300, of=20, kept=0, block=2)]
    assert speed_at([*late, run("spatial_50", tokens=10)], BOUNDS, 95.0) == 1.0


def test_what_the_server_alone_misses_is_told():
    tight, wide = target("tpot", 2.0), target("tpot", 4.0, tpot=0.3)
    runs = [run("alone", kept=8), run("alone", kept=10, block=1)]
    found = attainments({tight: runs, wide: runs})
    assert found == {"attainment_tpot_2": (0.9, "fraction"), "attainment_tpot_4": (1.0, "fraction")}


def test_a_failed_request_keeps_no_target():
    failed = Run("rowen", 1.0, 0.5, 0, 10.0, 5.0, (outcome(error="gone"),))
    assert speed_at([failed], BOUNDS, 95.0) == 0.0


def test_rowen_is_held_against_the_best_other_arm_at_each_target(tmp_path):
    tight, wide = target("tpot", 2.0, tpot=0.01), target("tpot", 4.0)
    runs = {
        arm: {tight: [run(arm, tokens=tokens)], wide: [run(arm, tokens=tokens)]}
        for arm, tokens in {"rowen": 300, "chunked": 100, "preempt": 200}.items()
    }
    found = over_best(runs, 95.0)
    assert found["over_best_other_tpot_4"] == (1.5, "ratio")
    assert isinstance(found["over_best_other_tpot_2"][0], Missing)
    figures = {arm: sweep_figures(runs, arm, 95.0) for arm in runs}
    assert figures["rowen"] == {"finetune_tpot_2": (0.0, "tokens/s"), "finetune_tpot_4": (30.0, "tokens/s")}
    obj = report("slo_sweep", 0, figures.pop("rowen"), figures)
    sweep_picture.draw(obj, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_why_no_other_arm_gives_a_ratio_is_told_and_the_least_ratio_has_a_bar():
    keeps, misses = target("tpot", 4.0), target("tpot", 2.0, tpot=0.01)
    runs = {
        "rowen": {misses: [run("rowen")], keeps: [run("rowen")]},
        "alone": {misses: [run("alone", tokens=0)], keeps: [run("alone", tokens=0)]},
        "chunked": {misses: [run("chunked")], keeps: [run("chunked", tokens=0)]},
    }
    found = over_best(runs, 95.0)
    assert found["over_best_other_tpot_2"][0] == Missing("no other arm keeps the target")
    assert found["over_best_other_tpot_4"][0] == Missing("the other arms that keep the target learned nothing")
    # The plain server keeps it, and is none of the others: it has nothing to learn.
    runs["chunked"][keeps] = [run("chunked", kept=0)]
    assert over_best(runs, 95.0)["over_best_other_tpot_4"][0] == Missing("no other arm keeps the target")
    assert isinstance(found["least_over_best_other"][0], Missing)
    assert set(slo_sweep.BARS) <= set(found)


def test_where_rowen_misses_a_target_that_another_arm_keeps_the_least_ratio_is_none():
    one, other = target("tpot", 2.0), target("tpot", 4.0)
    runs = {
        "rowen": {one: [run("rowen", kept=0)], other: [run("rowen", tokens=300)]},
        "chunked": {one: [run("chunked")], other: [run("chunked")]},
    }
    assert over_best(runs, 95.0)["least_over_best_other"] == (0.0, "ratio")


def test_one_target_is_varied_at_a_time():
    targets = slo_sweep.targets_of(slo_sweep.QUICK, Alone(ttft=0.02, tpot=0.01))
    assert [one.name for one in targets] == ["tpot_2", "tpot_5", "ttft_5"]
    assert targets[0].bounds == Bounds(ttft=0.02 * slo_sweep.WIDE["ttft"], tpot=0.02)
    assert targets[2].bounds == Bounds(ttft=0.1, tpot=0.01 * slo_sweep.WIDE["tpot"])


def test_a_block_has_all_runs_in_an_order_that_is_drawn():
    targets = slo_sweep.targets_of(slo_sweep.FULL, Alone(ttft=0.02, tpot=0.01))
    source = random.Random(0)
    first, second = (slo_sweep.turns_of(targets, source) for _ in range(2))
    assert first != second
    assert slo_sweep.turns_of(targets, random.Random(0)) == first
    settings = [name for names in slo_sweep.SETTINGS.values() for name in names]
    assert sorted(name for name, target in first if target is None) == sorted(settings)
    assert set(settings) <= set(slo_sweep.ARMS)
    for name in slo_sweep.AIMING:
        assert {target for each, target in first if each == name} == set(targets)
    assert len(first) == len(settings) + 2 * len(targets)


def test_what_deferral_gains_is_told_block_by_block():
    runs = [run("rowen", tokens=100), run("deferred", tokens=150)]
    runs += [run("rowen", tokens=50, block=1), run("deferred", tokens=60, block=1)]
    runs += [run("rowen", tokens=80, block=2), run("deferred", tokens=40, block=2)]
    runs += [run("rowen", load=2.0, tokens=0.0), run("deferred", load=2.0, tokens=10)]
    found = deferral.gains(runs)
    assert [found[f"gain_{name}load_1"] for name in ("", "least_", "most_")] == [
        (1.2, "ratio"), (0.5, "ratio"), (1.5, "ratio")
    ]  # fmt: skip
    assert isinstance(found["gain_load_2"][0], Missing)


def test_an_engine_that_held_no_prompt_back_is_not_measured_against_itself(tmp_path):
    node = SimpleNamespace(processes=SimpleNamespace(folder=tmp_path))
    (tmp_path / "rowen.log").write_text("rowen: all is well\n")
    runs = [replace(run("rowen"), held_steps=0.0), replace(run("deferred"), held_steps=5.0), run("alone")]
    deferral._check_deferring(node, runs)
    assert deferral.held_steps(runs) == {"held_steps_load_1": (0.5, "1/s")}
    with pytest.raises(RuntimeError, match="held no prompt back"):
        deferral._check_deferring(node, [runs[0], replace(runs[1], held_steps=0.0), runs[2]])
    (tmp_path / "rowen.log").write_text("rowen: prompts are not deferred in this engine\n")
    with pytest.raises(RuntimeError, match="prompts are not deferred"):
        deferral._check_deferring(node, runs)


def test_first_tokens_of_an_arm_are_over_all_blocks():
    slow = Run("deferred", 1.0, 0.5, 1, 10.0, 1.0, (outcome(ttft=0.9), outcome(ttft=0.8)))
    found = deferral.first_tokens([run("deferred", kept=1, of=1), slow, run("rowen")], "deferred")
    assert found == {"ttft_p50_load_1": (pytest.approx(800.0), "ms")}
    failed = Run("deferred", 1.0, 0.5, 1, 10.0, 1.0, (outcome(error="gone"),))
    assert isinstance(deferral.first_tokens([failed], "deferred")["ttft_p50_load_1"][0], Missing)


def test_what_the_engines_own_steps_leave_is_told_at_the_speed_of_a_job_alone():
    def ridden(tokens, online, block=0):
        return Run("rowen", 1.0, 0.5, block, 10.0, tokens, (), online_seconds=online)

    runs = [ridden(900.0, 4.0), ridden(300.0, 8.0, block=1), run("alone"), run("preempt", tokens=5000.0)]
    figures = left_figures(runs, 200.0)
    # 12 of 20 seconds were the requests'.
    assert figures["left_load_1"] == (pytest.approx(80.0), "tokens/s")
    assert figures["of_left_load_1"] == (pytest.approx(60.0 / 80.0), "fraction")
    assert isinstance(left_figures([ridden(0.0, 10.0)], 200.0)["of_left_load_1"][0], Missing)
