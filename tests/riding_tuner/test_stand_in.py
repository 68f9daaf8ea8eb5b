"""The stand-in for a base model: no memory, and the same adapter."""

from pathlib import Path

import pytest
import torch
from runtime.tuning_runs import spec

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.adapter import add_adapter, load_base
from rowen.runtime.tuning.checkpoint import trainable
from rowen.runtime.tuning.riding.stand_in import RidingAdapter, load_stand_in


@pytest.mark.parametrize("modules", [["q_proj", "v_proj"], ["all-linear"], ["self_attn.o_proj", "down_proj"]])
def test_the_first_weights_are_those_of_the_real_model(tiny_model: Path, modules: list[str]) -> None:
    job = spec(tiny_model, tiny_model, tiny_model, lora=Lora(rank=4, target_modules=modules))
    real = trainable(add_adapter(load_base(tiny_model), job))
    standing = trainable(add_adapter(load_stand_in(tiny_model), job))
    assert list(real) == list(standing)
    assert all(torch.equal(real[name], standing[name]) for name in real)


def test_the_base_takes_no_memory(tiny_model: Path) -> None:
    model = load_stand_in(tiny_model)
    tensors = [*model.parameters(), *model.buffers()]
    assert max(tensor.untyped_storage().nbytes() for tensor in tensors) <= 8
    assert not any(tensor.requires_grad for tensor in tensors)


def test_each_weight_has_its_place(tiny_model: Path) -> None:
    job = spec(tiny_model, tiny_model, tiny_model, lora=Lora(rank=4, alpha=8, target_modules=["all-linear"]))
    adapter = RidingAdapter(add_adapter(load_stand_in(tiny_model), job))
    assert len(adapter.pairs) == 2 * 7
    assert list(adapter.pairs) == sorted(adapter.pairs, key=lambda place: place[0])
    assert adapter.scaling == 2
    assert adapter.layout.size_bytes == sum(weight.nbytes for weight in adapter.weights)


def test_a_layer_that_no_engine_computes_is_named(tiny_model: Path) -> None:
    job = spec(tiny_model, tiny_model, tiny_model, lora=Lora(target_modules=["q_proj", "lm_head"]))
    with pytest.raises(WorkerError, match="lm_head") as refusal:
        RidingAdapter(add_adapter(load_stand_in(tiny_model), job))
    assert (refusal.value.reason, refusal.value.code) == ("RideRefused", ExitCode.RETRY)


def test_weights_lie_as_the_layout_says(tiny_model: Path) -> None:
    adapter = RidingAdapter(add_adapter(load_stand_in(tiny_model), spec(tiny_model, tiny_model, tiny_model)))
    pairs = adapter.layout.pairs(adapter.copied().numpy())
    assert pairs.keys() == adapter.pairs.keys()
    for place, pair in adapter.pairs.items():
        assert torch.equal(pairs[place].a, pair.a)
        assert torch.equal(pairs[place].b, pair.b)
