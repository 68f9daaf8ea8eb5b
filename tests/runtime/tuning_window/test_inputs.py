"""Layers' inputs in the arena."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memory.local_arena import LocalArena
from runtime.tuning_window.models import (
    HANDLE_BYTES,
    LAYER_HANDLES,
    LAYERS,
    WHOLE,
    Curve,
    layers,
    llama,
    loss_of,
    train,
)
from torch import nn

from rowen.runtime.tuning.window.window import Window

INPUTS = 4
"""Handles for inputs: more than all of them take, which is less than one."""


def arena_of(grant: int) -> LocalArena:
    return LocalArena(WHOLE + INPUTS, HANDLE_BYTES, grant)


def windowed(model: nn.Module, arena: LocalArena, **options: Any) -> Window:
    return Window(model, layers(model), arena, input_handles=INPUTS, **options)


def in_pool(arena: LocalArena) -> list[int]:
    return [handle for handle in arena.mapped if handle >= WHOLE]


def test_they_lie_in_the_arena_from_the_forward_to_the_backward_pass(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE + INPUTS)
    with windowed(model, arena) as window:
        assert arena.wanted == WHOLE + INPUTS
        loss = loss_of(model, 0)
        assert len(in_pool(arena)) == 1
        loss.backward()
        loss_of(model, 1).backward()
        assert len(in_pool(arena)) <= 1
        for weight in model.parameters():
            weight.grad = None
        assert train(model).is_same(plain)
        assert window.counts.recoveries == 0
    assert arena.mapped == set()


@pytest.mark.parametrize("inputs", [0, INPUTS])
def test_they_leave_own_memory(inputs: int) -> None:
    model, arena = llama(), arena_of(WHOLE + INPUTS)
    given: list[weakref.ref[torch.Tensor]] = []
    for layer in layers(model):
        layer.register_forward_pre_hook(lambda _, tensors: given.append(weakref.ref(tensors[0])))
    with Window(model, layers(model), arena, input_handles=inputs):
        loss = loss_of(model, 0)
        # The first one comes from no layer, so that nothing could compute it again.
        assert [reference() is not None for reference in given] == [True, *[not inputs] * (LAYERS - 1)]
        loss.backward()
        assert [reference() is not None for reference in given] == [False] * LAYERS


@pytest.mark.parametrize("moment", ["forward", "backward"])
def test_what_is_lost_is_computed_again(moment: str, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE + INPUTS)
    calls: list[None] = []

    def take(*_: Any) -> None:
        calls.append(None)
        if len(calls) == 1:
            arena.take(in_pool(arena))

    if moment == "forward":
        model.get_submodule("base_model.model.model.norm").register_forward_pre_hook(take)
    else:
        layers(model)[3].mlp.register_full_backward_pre_hook(take)
    with windowed(model, arena, prefetch=False) as window:
        assert train(model).is_same(plain)
        # All inputs but the first one's, or those of the layers that have not been gone back through.
        assert window.counts.recoveries == (LAYERS - 1 if moment == "forward" else 2)
        assert window.counts.repeats == 0


def test_with_less_memory_they_move_into_own(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE + INPUTS)
    norm = model.get_submodule("base_model.model.model.norm")
    norm.register_forward_pre_hook(lambda *_: arena.set_grant(LAYER_HANDLES))
    with windowed(model, arena) as window:
        assert train(model).is_same(plain)
        assert window.counts.recoveries == 0


@pytest.mark.parametrize(("grant", "stored"), [(2 * LAYER_HANDLES, 0), (2 * LAYER_HANDLES + 1, 1)])
def test_they_leave_room_for_two_layers(grant: int, stored: int, plain: Curve) -> None:
    model, arena = llama(), arena_of(grant)
    most: list[int] = []
    norm = model.get_submodule("base_model.model.model.norm")
    norm.register_forward_pre_hook(lambda *_: most.append(len(in_pool(arena))))
    with windowed(model, arena):
        assert train(model).is_same(plain)
    assert max(most) == stored


@pytest.mark.parametrize(
    "between",
    [lambda hidden: hidden + 0.5, lambda hidden: hidden.add_(0.5), lambda hidden: hidden.transpose(0, 1)],
    ids=["new", "changed", "turned"],
)
def test_what_comes_not_straight_from_the_layer_before_stays(
    between: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
            for layer in self.layers:
                layer.weight.requires_grad_(False)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                hidden = between(layer(hidden))
            return hidden.square().sum()

    def gradients(model: nn.Module) -> list[torch.Tensor]:
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return list(torch.autograd.grad(model(torch.ones(6, 6)), weights))

    model, arena = Net(), LocalArena(6, 2048)
    with Window(model, list(model.layers), arena, input_handles=3):
        found = gradients(model)
        assert [handle for handle in arena.mapped if handle >= 3] == []
    assert all(torch.equal(a, b) for a, b in zip(found, gradients(Net()), strict=True))


def test_larger_ones_than_a_handle() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
            for layer in self.layers:
                layer.weight.requires_grad_(False)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                hidden = layer(hidden)
            return hidden.square().sum()

    def gradients(model: nn.Module) -> list[torch.Tensor]:
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return list(torch.autograd.grad(model(torch.linspace(0, 1, 70 * 64).view(70, 64)), weights))

    model, arena = Net(), LocalArena(3 + 5, 16384)
    expected = gradients(model)
    with Window(model, list(model.layers), arena, input_handles=5) as window:
        loss = model(torch.linspace(0, 1, 70 * 64).view(70, 64))
        # Two inputs of 17,920 bytes: a handle and a granule each, of which the granules share one.
        assert len([handle for handle in arena.mapped if handle >= 3]) == 3
        found = torch.autograd.grad(loss, [weight for weight in model.parameters() if weight.requires_grad])
        assert window.counts.recoveries == 0
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_going_back_twice_finds_them_twice() -> None:
    model, arena = llama(), arena_of(WHOLE + INPUTS)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    with windowed(model, arena) as window:
        loss = loss_of(model, 0)
        first = torch.autograd.grad(loss, weights, retain_graph=True)
        arena.take(in_pool(arena))
        second = torch.autograd.grad(loss, weights)
        assert window.counts.recoveries == LAYERS - 1
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
