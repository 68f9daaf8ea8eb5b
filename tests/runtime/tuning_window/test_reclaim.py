"""Memory that is taken away at any moment changes nothing but the time that it takes."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memory.local_arena import LocalArena
from runtime.tuning_window.beside import beside
from runtime.tuning_window.models import (
    LAYER_HANDLES,
    LAYERS,
    WHOLE,
    Curve,
    arena_of,
    layers,
    llama,
    loss_of,
    train,
)
from torch import nn

from rowen.runtime.tuning.window.window import Window

MODES = pytest.mark.parametrize("recompute", [True, False], ids=["recomputed", "kept"])


def handles_of(layer: int) -> range:
    return range(layer * LAYER_HANDLES, (layer + 1) * LAYER_HANDLES)


class Taker:
    """Takes handles at the chosen times of all those at which it is called."""

    def __init__(self, arena: LocalArena, handles: Callable[[], list[int]], *times: int) -> None:
        self._arena = arena
        self._handles = handles
        self._times = times
        self._calls = 0
        self.taken = 0

    def __call__(self, *_: Any) -> None:
        self._calls += 1
        if self._calls in self._times:
            with self._arena.lock:
                chosen = [handle for handle in self._handles() if handle in self._arena.mapped]
                self._arena.take(chosen)
                self._arena.set_grant(self._arena.grant + len(chosen))
            self.taken += len(chosen)


@MODES
@pytest.mark.parametrize("moment", ["before its weights are read", "after"])
def test_taken_in_the_middle_of_a_forward_pass(moment: str, recompute: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    taker = Taker(arena, lambda: list(handles_of(2)), 1, 3, 4)
    projection = layers(model)[2].mlp.up_proj
    if moment == "after":
        projection.register_forward_hook(taker)
    else:
        projection.register_forward_pre_hook(taker)
    with Window(model, layers(model), arena, recompute=recompute) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 3
    assert taker.taken == 3 * LAYER_HANDLES


@MODES
def test_taken_in_the_middle_of_a_backward_pass(recompute: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    taker = Taker(arena, lambda: list(handles_of(1)), 1, 3)
    layers(model)[1].mlp.register_full_backward_pre_hook(taker)
    with Window(model, layers(model), arena, recompute=recompute) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 2
    assert taker.taken == 2 * LAYER_HANDLES


def test_one_handle_costs_one_handle(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    taker = Taker(arena, lambda: [handles_of(2)[1]], 2)
    layers(model)[2].mlp.register_forward_hook(taker)
    with Window(model, layers(model), arena, prefetch=False) as window:
        assert train(model).is_same(plain)
        assert (window.counts.repeats, window.counts.loads) == (1, WHOLE + 1)


def test_handles_of_other_layers_cost_no_pass(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    taker = Taker(arena, lambda: [*handles_of(1), *handles_of(3)], 2, 3)
    layers(model)[2].mlp.register_forward_hook(taker)
    with Window(model, layers(model), arena) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 0
    assert taker.taken == 4 * LAYER_HANDLES


def test_everything_taken_at_once_in_every_pass(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    # Each pass comes twice, the second time in peace.
    taker = Taker(arena, lambda: sorted(arena.mapped), *range(1, 1000, 2))
    for layer in layers(model):
        layer.mlp.register_forward_pre_hook(taker)
    with Window(model, layers(model), arena) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 3 * 2 * LAYERS + LAYERS


def test_what_fails_on_lost_weights_is_not_the_layers_failure(plain: Curve) -> None:
    class Strict(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.inner(hidden)
            if not result.isfinite().all():
                raise ArithmeticError("no number")
            return result

    model, arena = llama(), arena_of(WHOLE)
    block = layers(model)[3]
    block.mlp.up_proj.register_forward_pre_hook(Taker(arena, lambda: list(handles_of(3)), 2))
    block.mlp = Strict(block.mlp)
    with Window(model, layers(model), arena) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 1


@MODES
@pytest.mark.parametrize("grant", [0, LAYER_HANDLES - 1])
def test_without_room_for_a_layer_it_waits(grant: int, recompute: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    waiting = threading.Event()

    def take_all(*_: Any) -> None:
        if not waiting.is_set():
            arena.take(sorted(arena.mapped))
            arena.set_grant(grant)
            waiting.set()

    layers(model)[3].mlp.register_forward_hook(take_all)
    with Window(model, layers(model), arena, recompute=recompute) as window:

        def give() -> None:
            assert waiting.wait(60)
            while window.counts.waits < 2:
                time.sleep(0.001)
            arena.set_grant(LAYER_HANDLES)

        giver = threading.Thread(target=give)
        giver.start()
        assert train(model).is_same(plain)
        giver.join()
        assert window.counts.waits >= 2


def test_a_smaller_grant_is_obeyed_at_the_next_pass(plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    seen: list[int] = []
    block = layers(model)[4]
    block.mlp.register_forward_pre_hook(lambda *_: seen.append(len(arena.mapped)))
    layers(model)[3].mlp.register_forward_hook(lambda *_: arena.set_grant(2 * LAYER_HANDLES + 1))
    with Window(model, layers(model), arena) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 0
    assert seen
    assert max(seen) <= 2 * LAYER_HANDLES + 1


def test_a_larger_grant_is_used(plain: Curve) -> None:
    model, arena = llama(), arena_of(LAYER_HANDLES)
    grown: list[int] = []
    layers(model)[3].mlp.register_forward_hook(lambda *_: arena.set_grant(WHOLE))
    layers(model)[0].mlp.register_forward_pre_hook(lambda *_: grown.append(len(arena.mapped)))
    with Window(model, layers(model), arena, prefetch=False) as window:
        assert train(model).is_same(plain)
        assert window.counts.loads == WHOLE + 3 * LAYER_HANDLES
    assert grown[-1] == WHOLE


def taking(arena: LocalArena, seed: int) -> Callable[[threading.Event], None]:
    """Takes handles away and changes the grant at random moments, in the end all is granted again."""
    draw = random.Random(seed)

    def once() -> None:
        with arena.lock:
            mapped = sorted(arena.mapped)
            count = min(len(mapped), draw.choice([1, 1, 2, LAYER_HANDLES, WHOLE]))
            arena.take(draw.sample(mapped, count))
            arena.set_grant(draw.choice([0, LAYER_HANDLES, 2 * LAYER_HANDLES + 1, WHOLE, arena.capacity]))

    def take(ended: threading.Event) -> None:
        for _ in range(60):
            if ended.wait(draw.uniform(0, 0.004)):
                return
            once()
        arena.set_grant(arena.capacity)

    return take


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prefetch", [False, True], ids=["on demand", "prefetched"])
@pytest.mark.parametrize(("recompute", "inputs"), [(True, 0), (True, 4), (False, 0)], ids=["own", "pool", "kept"])
def test_taken_at_random_moments(seed: int, prefetch: bool, recompute: bool, inputs: int, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE + inputs, WHOLE + inputs)
    window = Window(model, layers(model), arena, prefetch=prefetch, recompute=recompute, input_handles=inputs)
    with window, beside(taking(arena, seed)):
        assert train(model).is_same(plain)
    assert arena.taken > 0


def test_the_same_loss_without_a_backward_pass() -> None:
    model, arena = llama(), arena_of(WHOLE)
    model.eval()
    with torch.no_grad():
        expected = loss_of(model, 0)
        layers(model)[2].mlp.register_forward_pre_hook(Taker(arena, lambda: sorted(arena.mapped), 1, 2, 4))
        with Window(model, layers(model), arena) as window:
            for _ in range(3):
                assert torch.equal(loss_of(model, 0), expected)
            assert window.counts.repeats == 3
