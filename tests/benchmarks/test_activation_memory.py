"""The comparison of activations, on a model of a few numbers."""

import pytest
from activation_memory import ADAPTERS, measured

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
