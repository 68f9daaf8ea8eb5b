"""Figures of the jobs' benchmark from repeats that are known, and its rows; some of its programs."""

import jobs
import pytest
from alone.timing import epochs, say_steps
from jobs import Bench, Plan, Repeat, chats, ratio_figures
from reporting.bars import judged
from reporting.blocks import Block

from rowen.demo.samples import Shape


def test_ratios_are_of_the_same_block():
    speeds = {"tuner": (97.0, 50.0), "trl": (100.0, 50.0), "batch": (30.0, 60.0), "vllm": (20.0, 60.0)}
    repeats = [
        Repeat(arm, block, speed, 1.0)
        for arm, values in {**speeds, "vllm_eager": (30.0, 30.0)}.items()
        for block, speed in enumerate(values)
    ]
    figures = ratio_figures(repeats)
    assert figures["tuner_vs_trl"][0] == pytest.approx(0.985)
    assert figures["batch_vs_vllm"][0] == pytest.approx(1.25)
    assert figures["batch_vs_vllm_eager"][0] == pytest.approx(1.5)


def test_a_bar_can_be_missed():
    rows = {"tuner_vs_trl": {"value": 0.96}, "batch_vs_vllm": {"value": 0.97}}
    verdicts = {name: bar["kept"] for name, bar in judged(rows, jobs.BARS).items()}
    assert verdicts == {"tuner_vs_trl": False, "batch_vs_vllm": True}


def test_all_chats_have_answers_of_one_length():
    rows = list(chats(5, 7))
    assert len(rows) == 5
    assert {row["url"] for row in rows} == {"/v1/chat/completions"}
    assert all(
        (row["body"]["max_tokens"], row["body"]["ignore_eos"], "seed" in row["body"]) == (7, True, False)
        for row in rows
    )


def test_the_first_steps_do_not_count(capsys):
    say_steps([0.0, 10.0, 11.0, 20.0, 21.0, 23.0])
    assert capsys.readouterr().out == '{"units": 2, "seconds": 3.0}\n'


@pytest.mark.parametrize(("rows", "steps", "passes"), [(8, 2, 1), (8, 3, 2), (9, 3, 1), (9, 7, 3)])
def test_steps_are_whole_passes(tmp_path, rows, steps, passes):
    (tmp_path / "rows").write_text("{}\n" * rows)
    assert epochs(str(tmp_path / "rows"), steps) == passes


@pytest.mark.timeout(600)
@pytest.mark.parametrize("arm", ["tuner", "trl", "batch"])
def test_an_arm_runs_with_a_small_model(tmp_path, arm):
    small = Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1)
    bench = Bench(tmp_path, Plan(small, blocks=1, steps=5, checkpoint_steps=4, rows=6, answer_tokens=4))
    repeat = bench.repeat(arm, Block(3, 0.0, (arm,)))
    assert (repeat.arm, repeat.block) == (arm, 3)
    assert repeat.tokens_per_second > 0
