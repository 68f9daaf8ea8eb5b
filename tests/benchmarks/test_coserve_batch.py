"""What rows beside a service come to, from runs that are written down here."""

from dataclasses import replace

import pytest
from coserving.measuring import tokens_by
from reporting.report import Missing
from row_riding.arms import arms_of
from row_riding.counters import Counters
from row_riding.node import rows
from row_riding.result import Bounds, Run, main_figures, points, versus

from rowen.demo.traffic.replay import Outcome
from rowen.demo.traffic.scaling import Request

BOUNDS = Bounds(ttft=0.2, tpot=0.04)
METRICS = """
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 7.0
"""


def run(arm: str, load: float, tokens: float, *late: bool) -> Run:
    """`late`: of each request whether it missed its bound."""
    times = [0.3 if miss else 0.1 for miss in late]
    outcomes = tuple(Outcome(0, lateness=0, end=1, ttft=ttft, tpot=0.02, tokens=32, error=None) for ttft in times)
    return Run(arm, arm.partition("_")[0], load, 1.0, 0, 10.0, tokens, outcomes)


def test_of_a_request_counts_what_is_done_by_then():
    request = Request(0.0, (8,) * 10, 4)
    # First token at 100.5, the others 0.2 s apart.
    done = Outcome(100.0, lateness=0, end=101.1, ttft=0.5, tpot=0.2, tokens=4, error=None)
    assert tokens_by(100.4, request, done) == 0
    assert tokens_by(100.5, request, done) == 11
    assert tokens_by(100.9, request, done) == pytest.approx(13)
    assert tokens_by(200.0, request, done) == 14
    assert tokens_by(200.0, request, replace(done, ttft=None, tpot=None, tokens=0)) == 0
    assert tokens_by(200.0, request, replace(done, tpot=None, tokens=1)) == 11


RUNS = [
    run("alone", 1, 0, False, False),
    run("priority_1", 1, 100, False, False),
    run("priority_4", 1, 900, True, False),
    run("gateway_1", 1, 300, True, True),
    run("preempt", 1, 50, False, False),
    run("rowen_24", 1, 400, False, False),
]


def test_a_baseline_counts_with_the_rows_with_which_the_bounds_are_kept() -> None:
    table = points(RUNS, BOUNDS)
    assert versus(table, "priority", 1) == 4
    assert versus(table, "preempt", 1) == 8
    assert isinstance(versus(table, "gateway", 1), Missing)


def test_where_rowen_does_not_keep_them_its_speed_is_no_merit() -> None:
    worse = [*RUNS[:-1], run("rowen_24", 1, 4500, True, False)]
    found = versus(points(worse, BOUNDS), "priority", 1)
    assert isinstance(found, Missing)
    assert "50.0%" in found.reason
    assert isinstance(main_figures(worse, BOUNDS, "rowen_24")["offline_vs_priority_at_slo"][0], Missing)


def test_figures_are_the_worst_over_the_loads() -> None:
    more = [
        run("alone", 2, 0, False),
        run("priority_1", 2, 100, False),
        run("priority_4", 2, 100, False),
        run("gateway_1", 2, 100, False),
        run("preempt", 2, 0, False),
        run("rowen_24", 2, 200, False),
    ]
    figures = main_figures([*RUNS, *more], BOUNDS, "rowen_24")
    assert figures["offline_vs_priority_at_slo"] == (2, "ratio")
    assert figures["offline_vs_priority_load_1"] == (4, "ratio")
    assert figures["offline_vs_preempt"] == (8, "ratio")
    assert figures["ttft_p99_increase"] == (0, "fraction")
    assert figures["offline_load_2"] == (20, "tokens/s")


def test_a_load_at_which_only_rowen_fails_raises_no_figure() -> None:
    more = [
        run("alone", 2, 0, False),
        run("priority_1", 2, 100, False),
        run("gateway_1", 2, 100, True),
        run("preempt", 2, 50, True),
        run("rowen_24", 2, 200, True),
    ]
    figures = main_figures([*RUNS, *more], BOUNDS, "rowen_24")
    found = figures["offline_vs_priority_at_slo"][0]
    assert isinstance(found, Missing)
    assert found.reason.endswith("load 2")
    # Where the other fails as well, the load says nothing.
    assert figures["offline_vs_preempt"] == (8, "ratio")


def test_what_a_server_says_is_read() -> None:
    assert Counters.of(METRICS, 1.0) == Counters(seconds=1.0, tokens=107.0, waiting=3.0, cache=0.25)


def test_each_arm_has_a_name_of_its_own() -> None:
    names = [arm.name for arm in arms_of((1, 4), 24)]
    assert names == ["alone", "priority_1", "priority_4", "priority_24", "gateway_24", "preempt", "rowen_24"]


def test_rows_are_the_same_for_the_same_seed() -> None:
    assert rows(3, "1") == rows(3, "1") != rows(3, "2")
    assert len(rows(50, "0")) == 50
