"""The comparison of activations, on a model of a few numbers."""

import pytest
from activation_memory import ADAPTERS, ARMS, draw, measured
from reporting.report import report

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}


@pytest.fixture(scope="module")
def arms():
    return measured(SIZES, ADAPTERS["all"], tokens=64)


def test_each_step_keeps_less_than_the_one_before(arms):
    assert arms["conventional"] > arms["autograd"] > arms["rematerialized"]
    assert arms["pruned"] > arms["rematerialized"]
    assert arms["autograd"] > arms["checkpointing"]


def test_fewer_adapters_need_fewer_activations(arms):
    few = measured(SIZES, ADAPTERS["query_value"], tokens=64)
    assert few["autograd"] < arms["autograd"]
    assert few["pruned"] < arms["pruned"]
    assert few["windows"] == arms["windows"]


def test_every_way_of_keeping_activations_is_drawn(arms, tmp_path):
    figures = {arm: {"small_all_mib": (arms[arm] / 2**20, "MiB")} for arm in ARMS}
    obj = report("activation_memory", 0, figures.pop("windows"), figures) | {"tokens": 64}
    draw(obj, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
