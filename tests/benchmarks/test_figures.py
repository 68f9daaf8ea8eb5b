import json
from dataclasses import replace

import pytest
from outcomes import outcome
from reporting.blocks import Block
from reporting.figures import arm_figures, gate_figures, verdict_lines, verdicts
from reporting.repeat import Repeat
from reporting.report import Missing, report

PAIRS = 12


def repeat(arm, block, *, ttft=0.05, tpot=0.02, tokens=None, seconds=10.0, idle=5.0, requests=20, errors=0, stops=()):
    """One request has the ttft as given, all others have half of it."""
    outcomes = [outcome(number, ttft=ttft / 2, tpot=tpot) for number in range(requests - 1)]
    outcomes.append(outcome(requests, ttft=ttft, tpot=None))
    outcomes += [outcome(ttft=None, tpot=None, error="reset")] * errors
    return Repeat(
        arm=arm, block=block, outcomes=tuple(outcomes), seconds=seconds, idle=idle, gate_open=4.0, tokens=tokens,
        preemptions=len(stops), stops=tuple(stops), per_request=(1,) * len(stops), backstops=0, cooldown=0.01,
    )  # fmt: skip


def couple(number, *, alone=0.05, rowen=0.05, **details):
    block = Block(number, 5.0, ("alone", "rowen") if number % 2 else ("rowen", "alone"))
    return [repeat("alone", block, ttft=alone), repeat("rowen", block, ttft=rowen, tokens=900, **details)]


def couples(alone, rowen):
    return [
        found
        for number, (one, other) in enumerate(zip(alone, rowen, strict=True))
        for found in couple(number, alone=one, rowen=other)
    ]


def value(figures, name):
    return figures[name][0]


def test_one_outlier_of_the_server_alone_is_in_no_increase():
    repeats = couples([0.05] * 4 + [0.4] + [0.05] * 7, [0.0505] * PAIRS)
    figures = arm_figures(repeats, "rowen", 200.0)
    assert value(figures, "ttft_p99_increase") == pytest.approx(0.01)
    assert value(figures, "ttft_p99_increase_low") == pytest.approx(0.01)
    assert value(figures, "blocks") == PAIRS
    assert value(figures, "interval_coverage") == pytest.approx(1 - 2 * 79 / 4096)
    assert verdicts(repeats, ["rowen"])["rowen"]["ttft_p99_increase"] == "within the bar"


def test_an_effect_of_every_block_is_one():
    repeats = couples([0.05, 0.06] * 6, [0.055, 0.066] * 6)
    figures = arm_figures(repeats, "rowen", 200.0)
    assert value(figures, "ttft_p50_increase") == pytest.approx(0.1)
    assert value(figures, "tpot_p99_increase") == pytest.approx(0.0)
    assert verdicts(repeats, ["rowen"])["rowen"] == {
        "ttft_p50_increase": "over the bar",
        "ttft_p99_increase": "over the bar",
        "tpot_p50_increase": "within the bar",
        "tpot_p99_increase": "within the bar",
    }


def test_bars_of_ttft_and_tpot_differ():
    blocks = [Block(number, 5.0, ("alone", "rowen")) for number in range(PAIRS)]
    repeats = [repeat("alone", block) for block in blocks]
    repeats += [repeat("rowen", block, ttft=0.052, tpot=0.0208) for block in blocks]
    found = verdicts(repeats, ["rowen"])["rowen"]
    assert (found["ttft_p99_increase"], found["tpot_p99_increase"]) == ("within the bar", "over the bar")


def test_noise_is_the_server_alone_against_its_neighbour():
    repeats = couples([0.05, 0.06] * 6, [0.055, 0.066] * 6)
    alone, rowen = (arm_figures(repeats, arm, 200.0) for arm in ("alone", "rowen"))
    assert value(alone, "blocks") == PAIRS / 2
    assert value(alone, "ttft_p99_increase") == pytest.approx(0.2)
    assert "ttft_p99_increase_noise_low" not in alone
    for bound in ("low", "high"):
        assert value(alone, f"ttft_p99_increase_{bound}") == pytest.approx(0.2)
        assert value(rowen, f"ttft_p99_increase_noise_{bound}") == pytest.approx(0.2)


def test_an_arm_is_compared_within_its_own_blocks_and_noise_is_of_the_couples():
    one, other = (Block(PAIRS + number, 5.0, ("pods", "alone")) for number in range(2))
    repeats = [
        *couples([0.05] * PAIRS, [0.05] * PAIRS),
        repeat("alone", one, ttft=0.1),
        repeat("pods", one, ttft=0.15, tokens=20),
        repeat("alone", other, ttft=0.4),
        repeat("pods", other, ttft=0.6, tokens=20),
    ]
    figures = arm_figures(repeats, "pods", 200.0)
    assert value(figures, "ttft_p99_increase") == pytest.approx(0.5)
    assert value(figures, "ttft_p99_increase_low") == Missing("2 of the 6 blocks that an interval of 95% takes")
    assert value(figures, "ttft_p99_increase_noise_high") == pytest.approx(0.0)
    assert value(arm_figures(repeats, "alone", 200.0), "ttft_p99_increase_high") == pytest.approx(0.0)


def test_absolute_percentiles_are_medians_over_repeats():
    repeats = couples([0.05, 0.06, 0.9], [0.05] * 3)
    figures = arm_figures([*repeats, *couple(3)], "alone", 200.0)
    assert value(figures, "ttft_p50_ms") == pytest.approx(27.5)
    assert value(figures, "tpot_p50_ms") == pytest.approx(20.0)


def test_harvest_is_told_of_the_stretches_that_all_arms_had():
    near, far = Block(0, 5.0, ("alone", "rowen", "pods")), Block(1, 61.0, ("alone", "rowen"))
    repeats = [
        repeat("alone", near),
        repeat("rowen", near, tokens=100, idle=1.0),
        repeat("pods", near, tokens=50, idle=1.0),
        repeat("alone", far),
        repeat("rowen", far, tokens=900, idle=1.0),
    ]
    assert value(arm_figures(repeats, "rowen", 200.0), "harvest_efficiency") == pytest.approx(0.5)
    assert value(arm_figures(repeats, "pods", 200.0), "harvest_efficiency") == pytest.approx(0.25)


def test_harvest_is_throughput_over_what_idle_time_allows():
    block = Block(0, 5.0, ("pods", "alone"))
    repeats = [
        repeat("alone", block),
        repeat("pods", block, tokens=90, idle=1.0),
        repeat("pods", block, tokens=330, idle=2.0, seconds=20.0),
    ]
    figures = arm_figures(repeats, "pods", 200.0)
    assert value(figures, "harvest_efficiency") == pytest.approx(420 / 600)
    assert value(figures, "idle_fraction") == pytest.approx(0.1)
    assert value(figures, "offline_part_of_solo") == pytest.approx(0.07)
    assert "harvest_efficiency" not in arm_figures(repeats, "alone", 200.0)
    busy = [repeat("alone", block), repeat("pods", block, tokens=90, idle=0.0)]
    assert value(arm_figures(busy, "pods", 200.0), "harvest_efficiency") == Missing("no idle time")


def test_each_arm_tells_how_late_its_client_was_and_what_failed():
    block = Block(0, 5.0, ("alone", "rowen"))
    found = repeat("alone", block, errors=2)
    figures = arm_figures([found], "alone", 200.0)
    assert value(figures, "client_lateness_ms_p99") == 0.0
    assert (value(figures, "requests"), value(figures, "errors")) == (22, 2)


def test_an_arm_whose_requests_all_failed_has_no_increase():
    block = Block(0, 5.0, ("alone", "pods"))
    failed = replace(repeat("pods", block, tokens=1), outcomes=(outcome(ttft=None, tpot=None, error="reset"),))
    figures = arm_figures([repeat("alone", block), failed], "pods", 200.0)
    assert value(figures, "ttft_p99_ms") == Missing("requests failed")
    assert value(figures, "ttft_p99_increase") == Missing("requests failed")
    assert value(figures, "tpot_p50_increase_low") == Missing("1 of the 6 blocks that an interval of 95% takes")
    assert failed.row(0)["ttft_ms_p99"] is None


def timing_out(found, count, ttft=None):
    """The first requests of a repeat fail, before their first token or after a fast one."""
    failed = [
        outcome(one.arrival, ttft=ttft, tpot=ttft, error="TimeoutError") if index < count else one
        for index, one in enumerate(found.outcomes)
    ]
    return replace(found, outcomes=tuple(failed))


def judged(repeats):
    obj = report("interference", 0, arm_figures(repeats, "rowen", 200.0), {})
    return [line for line in lines_of(obj, repeats, ["rowen"]) if line.startswith("  ttft")]


def lines_of(obj, repeats, names):
    return verdict_lines({**obj, "verdicts": verdicts(repeats, names), "unavailable": {}, "warm_up_steady": {}})


@pytest.mark.parametrize("ttft", [None, 0.001])
def test_an_arm_whose_requests_time_out_is_over_the_bar(ttft):
    pairs = couples([0.05] * PAIRS, [0.05] * PAIRS)
    repeats = [timing_out(one, 16, ttft) if one.arm == "rowen" else one for one in pairs]
    assert set(verdicts(repeats, ["rowen"])["rowen"].values()) == {"over the bar"}
    figures = arm_figures(repeats, "rowen", 200.0)
    assert value(figures, "errors") == 16 * PAIRS
    assert value(figures, "tpot_p50_ms") == Missing("requests failed")
    assert value(figures, "ttft_p50_increase_low") == Missing("requests failed")
    noise = "noise +0.0% … +0.0%"
    assert judged(repeats) == [
        f"  ttft_{name}_increase  requests failed (requests failed … requests failed; {noise}): over the bar"
        for name in ("p50", "p99")
    ]
    report_of = report("interference", 0, figures, {})
    assert any("failed requests 192 of 240" in line for line in lines_of(report_of, repeats, ["rowen"]))


@pytest.mark.parametrize("arm", ["alone", "rowen"])
def test_with_a_failed_request_on_either_side_nothing_is_within_the_bar(arm):
    repeats = couples([0.05] * PAIRS, [0.05] * PAIRS)
    index = next(index for index, one in enumerate(repeats) if one.arm == arm)
    assert set(verdicts(repeats, ["rowen"])["rowen"].values()) == {"within the bar"}
    repeats[index] = timing_out(repeats[index], 1)
    assert set(verdicts(repeats, ["rowen"])["rowen"].values()) == {"cannot tell (failed requests: 1)"}


def test_a_failure_in_other_blocks_is_not_held_against_an_arm():
    other = Block(PAIRS, 5.0, ("alone", "pods"))
    repeats = [*couples([0.05] * PAIRS, [0.05] * PAIRS), timing_out(repeat("alone", other), 1)]
    assert set(verdicts(repeats, ["rowen"])["rowen"].values()) == {"within the bar"}


def test_an_interval_with_an_infinite_end_tells_the_other():
    repeats = couples([0.05] * PAIRS, [0.05] * PAIRS)
    failing = [index for index, one in enumerate(repeats) if one.arm == "rowen"][:4]
    for index in failing:
        repeats[index] = timing_out(repeats[index], 16)
    assert judged(repeats)[0] == (
        "  ttft_p50_increase  +0.0% (+0.0% … requests failed; noise +0.0% … +0.0%): "
        "cannot tell (interval wider than the bar)"
    )


def test_a_row_of_failed_requests_is_json():
    row = timing_out(couple(1)[0], 16).row(0)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert (row["ttft_ms_p50"], row["errors"], row["ttft_ms"]) == (None, 16, [25.0] * 3 + [50.0])


def test_what_the_gate_did_is_of_rowens_repeats():
    repeats = [*couple(0, stops=(0.0002, 0.0004)), *couple(1, stops=(0.0003,))]
    figures = gate_figures(repeats, None)
    assert value(figures, "preemptions") == 3
    assert value(figures, "stop_ms_p50") == pytest.approx(0.3)
    assert value(figures, "gate_open_fraction") == pytest.approx(0.4)
    assert value(figures, "preemptions_per_request_max") == 1
    assert "stop_ms_p50" not in gate_figures(couple(0), None)
    assert figures["backstops"] == (sum(repeat.backstops for repeat in repeats if repeat.arm == "rowen"), "stops")
    assert gate_figures(repeats, "no cgroups")["backstops"] == (Missing("no cgroups"), "stops")


def test_a_row_has_what_the_figures_are_made_of():
    one, other = couple(1, stops=(0.0002,), idle=6.0)
    row = other.row(seed=7)
    assert json.loads(json.dumps(row)) == row
    assert (row["arm"], row["block"], row["order"], row["seed"], row["start_s"]) == ("rowen", 1, 1, 7, 5.0)
    assert (row["requests"], row["errors"], row["tokens"], row["idle_s"]) == (20, 0, 900, 6.0)
    assert row["ttft_ms"] == [25.0] * 19 + [50.0]
    assert row["tpot_ms"] == [20.0] * 19
    assert (row["ttft_ms_p50"], row["tpot_ms_p99"]) == (25.0, 20.0)
    assert row["stop_ms"] == [0.2]
    assert row["client_lateness_ms_p99"] == 0.0
    assert (one.row(7)["order"], one.row(7)["tokens"]) == (0, None)


def test_people_see_increase_noise_harvest_and_verdict_of_each_arm():
    repeats = couples([0.05] * PAIRS, [0.06] * PAIRS)
    block = Block(PAIRS, 5.0, ("alone", "pods"))
    repeats += [repeat("alone", block), repeat("pods", block, tokens=0)]
    obj = report(
        "interference", 0, arm_figures(repeats, "rowen", 200.0),
        {arm: arm_figures(repeats, arm, 200.0) for arm in ("alone", "pods")},
    )  # fmt: skip
    names = ["rowen", "alone", "pods"]
    lines = verdict_lines(
        {
            **obj,
            "verdicts": verdicts(repeats, names),
            "unavailable": {"pods_idle": "no such file"},
            "warm_up_steady": {"alone": True, "plain": False},
        }
    )
    assert "increases against the server alone; bars: ttft +5%, tpot +2%" in lines
    assert "rowen: blocks 12, harvest efficiency 0.90, failed requests 0 of 240, client lateness p99 0.0 ms" in lines
    assert "  ttft_p99_increase  +20.0% (+20.0% … +20.0%; noise +0.0% … +0.0%): over the bar" in lines
    assert "alone: blocks 6, harvest efficiency -, failed requests 0 of 260, client lateness p99 0.0 ms" in lines
    assert "  ttft_p99_increase  +0.0% (+0.0% … +0.0%): within the bar" in lines
    assert "pods: blocks 1, harvest efficiency 0.00, failed requests 0 of 20, client lateness p99 0.0 ms" in lines
    assert (
        "  ttft_p99_increase  +0.0% (no interval; noise +0.0% … +0.0%): "
        "cannot tell (no interval: 1 of the 6 blocks that an interval of 95% takes)"
    ) in lines
    assert "pods_idle: unavailable: no such file" in lines
    assert "server of alone: steady after its warm-up" in lines
    assert "server of plain: NOT steady after its warm-up; its figures may hold what a cold server takes" in lines
