"""A window of any size trains the same model, bit for bit."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from memory.local_arena import LocalArena
from runtime.tuning_window.models import (
    HANDLE_BYTES,
    LAYER_HANDLES,
    LAYERS,
    WHOLE,
    Chain,
    Curve,
    arena_of,
    layers,
    llama,
    loss_of,
    train,
    train_chain,
)
from torch import nn

from rowen.runtime.tuning.window.layers import layers_of
from rowen.runtime.tuning.window.window import Window

SIZES = [LAYER_HANDLES, 2 * LAYER_HANDLES, 3 * LAYER_HANDLES + 2, 4 * LAYER_HANDLES, WHOLE]


@pytest.mark.parametrize("recompute", [True, False], ids=["recomputed", "kept"])
@pytest.mark.parametrize("prefetch", [False, True], ids=["on demand", "prefetched"])
@pytest.mark.parametrize("handles", SIZES)
def test_any_window_gives_the_same_curve(handles: int, prefetch: bool, recompute: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(handles)
    with Window(model, layers(model), arena, prefetch=prefetch, recompute=recompute) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 0
        assert (window.counts.prefetches > 0) is (prefetch and handles > LAYER_HANDLES)
    assert arena.mapped == set()


def test_plain_checkpointing_gives_the_same_curve_too(plain: Curve) -> None:
    model = llama()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert train(model).is_same(plain)


@pytest.mark.parametrize("size", range(1, LAYERS + 1))
def test_no_more_is_loaded_than_has_to_be(size: int) -> None:
    model = llama()
    with Window(model, layers(model), arena_of(size * LAYER_HANDLES), prefetch=False) as window:
        counts = []
        for _ in range(3):
            loss_of(model, 0).backward()
            counts.append(window.counts.loads)
    # The first forward pass starts with nothing; then each round finds the window's layers at both its ends.
    assert [after - before for before, after in pairwise(counts)] == [2 * (LAYERS - size) * LAYER_HANDLES] * 2
    assert counts[0] == (LAYERS + (LAYERS - size)) * LAYER_HANDLES


def test_a_model_of_another_kind(plain_chain: Curve) -> None:
    model = Chain()
    handles = 13
    for recompute in (True, False):
        with Window(model, list(model.blocks), LocalArena(4 * handles, 2048, handles), recompute=recompute):
            assert train_chain(model).is_same(plain_chain)
        model = Chain()


def test_a_window_that_is_closed_has_changed_nothing(plain: Curve) -> None:
    model = llama()
    weight = layers(model)[0].mlp.up_proj.weight
    address, content = weight.data_ptr(), weight.clone()
    arena = arena_of(LAYER_HANDLES)
    window = Window(model, layers(model), arena)
    assert weight.data_ptr() != address
    assert arena.wanted == WHOLE
    assert not any("mlp" in name for name in vars(layers(model)[0]))
    window.close()
    assert (weight.data_ptr(), arena.wanted, arena.mapped) == (address, 0, set())
    assert torch.equal(weight, content)
    assert "forward" not in vars(layers(model)[0])
    assert train(model).is_same(plain)


def test_a_layer_whose_forward_was_replaced_before_gets_that_back() -> None:
    model = Chain()
    block = model.blocks[0]
    original = block.forward
    block.forward = replaced = lambda *args, **named: original(*args, **named)
    with Window(model, list(model.blocks), LocalArena(60, 2048)):
        assert block.forward is not replaced
        train_chain(model)
    assert block.forward is replaced


def test_going_back_through_a_closed_window_is_refused() -> None:
    model = llama()
    with Window(model, layers(model), arena_of(WHOLE)):
        loss = loss_of(model, 0)
    with pytest.raises(RuntimeError, match="closed"):
        loss.backward()


@pytest.mark.parametrize("recompute", [True, False])
def test_a_graph_may_be_gone_back_through_twice(recompute: bool) -> None:
    model = llama()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    model.train()
    expected = torch.autograd.grad(seeded_loss(model), weights)
    with Window(model, layers(model), arena_of(LAYER_HANDLES), recompute=recompute):
        loss = seeded_loss(model)
        for _ in range(2):
            found = torch.autograd.grad(loss, weights, retain_graph=True)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def seeded_loss(model: nn.Module) -> torch.Tensor:
    torch.manual_seed(4)
    return loss_of(model, 0)


def test_several_threads() -> None:
    torch.set_num_threads(2)
    try:
        expected, model = train_chain(Chain()), Chain()
        with Window(model, list(model.blocks), LocalArena(60, 2048, 26)):
            assert train_chain(model).is_same(expected)
    finally:
        torch.set_num_threads(1)


def test_random_numbers_go_on_as_without_a_window() -> None:
    model = llama()
    model.train()
    seeded_loss(model).backward()
    expected = torch.rand(3)
    with Window(model, layers(model), arena_of(LAYER_HANDLES)):
        seeded_loss(model).backward()
        assert torch.equal(torch.rand(3), expected)


def test_hooks_run_once() -> None:
    model = llama()
    layer = layers(model)[1]
    weight = layer.self_attn.q_proj.lora_A["default"].weight
    calls: list[str] = []
    layer.register_forward_hook(lambda *_: calls.append("forward"))
    expected, *_ = torch.autograd.grad(seeded_loss(model), [weight])
    weight.register_hook(lambda gradient: 2 * gradient)
    calls.clear()
    with Window(model, layers(model), arena_of(WHOLE)):
        seeded_loss(model).backward()
    assert torch.equal(weight.grad, 2 * expected)
    assert calls == ["forward"]


@pytest.mark.parametrize("recompute", [True, False])
def test_mixed_precision_is_that_of_the_forward_pass(recompute: bool) -> None:
    def curve(model: nn.Module) -> list[torch.Tensor]:
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        with torch.autocast("cpu", torch.bfloat16):
            inside = torch.autograd.grad(seeded_loss(model), weights)
            loss = seeded_loss(model)
        return [*inside, *torch.autograd.grad(loss, weights)]

    model = llama()
    model.train()
    expected = curve(model)
    with Window(model, layers(model), arena_of(2 * LAYER_HANDLES), recompute=recompute):
        found = curve(model)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_inference_mode() -> None:
    model = llama()
    model.eval()
    with torch.inference_mode():
        expected = loss_of(model, 0)
        with Window(model, layers(model), arena_of(LAYER_HANDLES)):
            assert torch.equal(loss_of(model, 0), expected)


def test_layers_compute_in_another_type_than_their_storage_has() -> None:
    model, reference = Chain(), Chain()
    for weight in (*model.blocks.parameters(), *model.blocks.buffers()):
        if not weight.requires_grad and weight.is_floating_point():
            weight.data = weight.data.bfloat16()
    for weight in reference.blocks.parameters():
        if not weight.requires_grad:
            weight.data = weight.data.bfloat16().float()
    kept = model.blocks[0].inner.weight.data_ptr()
    with Window(model, list(model.blocks), LocalArena(4 * 13, 2048, 13), dtype=torch.float32):
        assert model.blocks[0].inner.weight.dtype == torch.float32
        assert train_chain(model).is_same(train_chain(reference))
    assert (model.blocks[0].inner.weight.data_ptr(), model.blocks[0].inner.weight.dtype) == (kept, torch.bfloat16)


def test_what_others_use_too_stays_in_memory() -> None:
    def tied() -> Chain:
        model = Chain()
        model.blocks[0].inner.weight = model.blocks[1].inner.weight
        model.head = model.blocks[2].inner
        model.table = model.blocks[3].outer.weight
        return model

    def addresses(model: Chain) -> list[int]:
        blocks = model.blocks
        shared = [blocks[0].inner.weight, blocks[2].inner.weight, blocks[2].inner.bias, blocks[3].outer.weight]
        return [weight.data_ptr() for weight in shared]

    model = tied()
    before, moved = addresses(model), model.blocks[3].inner.weight.data_ptr()
    with Window(model, list(model.blocks), LocalArena(60, 2048, 13)):
        assert addresses(model) == before
        assert model.blocks[3].inner.weight.data_ptr() != moved
        assert train_chain(model).is_same(train_chain(tied()))


def test_numbers_that_may_be_indices_stay_in_memory() -> None:
    model = Chain()
    order = model.blocks[0].order.data_ptr()
    with Window(model, list(model.blocks), LocalArena(60, 2048)):
        assert model.blocks[0].order.data_ptr() == order


class Constant(nn.Module):
    """Returns its weight itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0), requires_grad=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.weight


@pytest.mark.parametrize("recompute", [True, False])
def test_an_output_that_lies_in_the_window_is_copied(recompute: bool) -> None:
    model = nn.ModuleList([Constant(), Constant()])
    with Window(model, list(model), LocalArena(2, 2048, 1), recompute=recompute):
        output = model[0](torch.ones(2, requires_grad=True))
        model[1](torch.ones(2))
        assert torch.equal(output, torch.arange(6.0))


def test_a_layer_that_changes_its_buffers_is_refused() -> None:
    model = nn.ModuleList([nn.BatchNorm1d(4)])
    model.requires_grad_(False)
    with (
        Window(model, list(model), LocalArena(4, 2048)),
        pytest.raises(ValueError, match="BatchNorm1d changes its buffers"),
    ):
        model[0](torch.rand(3, 4))


def test_a_cache_is_refused() -> None:
    model = llama()
    with (
        Window(model, layers(model), arena_of(WHOLE)),
        pytest.raises(TypeError, match=r"DynamicCache.*use_cache=False"),
    ):
        model(input_ids=torch.ones(1, 3, dtype=torch.int64), use_cache=True)


def test_a_weight_that_was_frozen_cannot_be_trained_later() -> None:
    model = Chain()
    with Window(model, list(model.blocks), LocalArena(60, 2048)):
        model.blocks[0].inner.weight.requires_grad_(True)
        with pytest.raises(ValueError, match=r"inner\.weight was frozen"):
            model(torch.ones(1, 3, dtype=torch.int64))


def test_a_layers_own_failure_is_passed_on_at_once() -> None:
    model = Chain()
    calls: list[Any] = []

    def fail(*_: Any) -> None:
        calls.append(None)
        raise KeyError("of the layer")

    model.blocks[1].inner.register_forward_hook(fail)
    with Window(model, list(model.blocks), LocalArena(60, 2048)), pytest.raises(KeyError, match="of the layer"):
        model(torch.ones(1, 3, dtype=torch.int64))
    assert len(calls) == 1


def test_an_arena_that_is_too_small_is_refused() -> None:
    model = llama()
    for capacity, inputs in ((WHOLE - 1, 0), (WHOLE, 1)):
        with pytest.raises(ValueError, match=f"take {WHOLE} handles, besides {inputs} for inputs.*has {capacity}"):
            Window(model, layers(model), LocalArena(capacity, HANDLE_BYTES), input_handles=inputs)
    Window(model, layers(model), LocalArena(WHOLE + 1, HANDLE_BYTES), input_handles=1).close()


def test_a_layer_that_occurs_twice_is_refused() -> None:
    model = Chain()
    with pytest.raises(ValueError, match="twice"):
        Window(model, [model.blocks[0], model.blocks[0]], LocalArena(60, 2048))


def test_the_layers_are_the_list_with_the_most_weights() -> None:
    model = Chain()
    model.small = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert layers_of(model) == list(model.blocks)
    with pytest.raises(ValueError, match="Linear has no list of layers"):
        layers_of(nn.Linear(2, 2))


def test_an_error_in_the_background_ends_the_training() -> None:
    class Broken(LocalArena):
        def lost(self) -> list[int]:
            import threading

            if threading.current_thread() is not threading.main_thread():
                raise OSError("the arena is broken")
            return super().lost()

    model = llama()
    window = Window(model, layers(model), Broken(WHOLE, HANDLE_BYTES))
    with pytest.raises(OSError, match="the arena is broken"):
        train(model)
    window.close()
