"""Figures of the window's benchmark from repeats that are known, and all of it with a model of two layers."""

import json

import pytest
import reclaim
import window
from reporting.blocks import Block
from window import PLAIN, Plan, Repeat, arm_figures, arm_of, changes, windows

from rowen.demo.samples import Shape


@pytest.mark.parametrize(("layers", "expected"), [(16, [16, 8, 4, 2, 1]), (6, [6, 3, 1]), (1, [1])])
def test_windows_go_from_all_layers_down_to_one(layers, expected):
    assert windows(layers) == expected


def repeats(arm, *speeds):
    return [Repeat(arm, Block(number, 0.0, ()), speed) for number, speed in enumerate(speeds)]


def test_throughput_is_compared_block_by_block():
    found = [*repeats(PLAIN, 100.0, 200.0, 50.0), *repeats("layers_1", 90.0, 100.0, 40.0)]
    change = changes(found, "layers_1", PLAIN)
    assert change.estimate == pytest.approx(-0.2)
    assert (change.blocks, change.interval) == (3, None)
    assert changes(found, PLAIN, PLAIN).estimate == pytest.approx(1.0)


def test_an_arm_is_compared_with_each_base():
    found = [*repeats(PLAIN, *[100.0] * 6), *repeats(arm_of(2), *[80.0] * 6), *repeats(arm_of(1), *[40.0] * 6)]
    figures = arm_figures(found, arm_of(1), {"change": PLAIN, "over_whole": arm_of(2)})
    assert figures["tokens_per_second"] == (40.0, "tokens/s")
    assert [figures[name][0] for name in ("change", "change_low", "change_high")] == pytest.approx([-0.6] * 3)
    assert figures["over_whole"][0] == pytest.approx(-0.5)


def test_all_of_it_runs_with_a_small_model(monkeypatch):
    monkeypatch.setattr(reclaim, "HELD", 4)
    small = Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1)
    found = json.loads(json.dumps(window.run(Plan(small, blocks=1, steps=1, releases=2), 0)))
    figures = {name: row["value"] for name, row in found["figures"].items()}
    assert figures["layers"] == 2
    assert all(figures[f"layers_{layers}_tokens_per_second"] > 0 for layers in (1, 2))
    assert found["baselines"][PLAIN]["tokens_per_second"]["value"] > 0
    for way in ("copied", "returned", "taken"):
        assert figures[f"{way}_ms_p99"] > 0
        assert len(found["release_seconds"][way]) == 2
    assert {(row["arm"], row["block"]) for row in found["repeats"]} == {(PLAIN, 0), ("layers_2", 0), ("layers_1", 0)}
