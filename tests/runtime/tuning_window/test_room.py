"""Less memory than is granted: the pod's memory limit is near."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from gate.rig import until
from runtime.tuning_window.beside import beside
from runtime.tuning_window.models import LAYER_HANDLES, STEPS, WHOLE, Curve, arena_of, layers, llama, train
from structlog.testing import capture_logs

from rowen.runtime.memory import shortage
from rowen.runtime.tuning.window.window import Window


@pytest.mark.parametrize("prefetch", [False, True], ids=["on demand", "prefetched"])
@pytest.mark.parametrize("room", [LAYER_HANDLES, LAYER_HANDLES + 2, 3 * LAYER_HANDLES - 1])
def test_layers_make_way_as_if_no_more_were_granted(room: int, prefetch: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    arena.room = room
    held: list[int] = []
    for layer in layers(model):
        layer.mlp.register_forward_pre_hook(lambda *_: held.append(len(arena.mapped)))
    with Window(model, layers(model), arena, prefetch=prefetch) as window:
        assert train(model).is_same(plain)
        assert window.counts.waits == window.counts.repeats == 0
    assert max(held) == room


def test_only_what_is_needed_is_loaded_again(plain: Curve) -> None:
    """As with a grant of as much: nothing is given up beyond what lacks."""

    def loads(grant: int, room: int) -> int:
        model, arena = llama(), arena_of(grant)
        arena.room = room
        with Window(model, layers(model), arena, prefetch=False) as window:
            assert train(model).is_same(plain)
            return window.counts.loads

    room = 3 * LAYER_HANDLES - 1
    assert loads(WHOLE, room) == loads(room, WHOLE)


@pytest.mark.parametrize("prefetch", [False, True], ids=["on demand", "prefetched"])
def test_more_room_is_used(prefetch: bool, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE)
    arena.room = LAYER_HANDLES
    held: list[int] = []
    layers(model)[3].mlp.register_forward_hook(lambda *_: setattr(arena, "room", WHOLE))
    layers(model)[-1].mlp.register_full_backward_pre_hook(lambda *_: held.append(len(arena.mapped)))
    with Window(model, layers(model), arena, prefetch=prefetch):
        assert train(model).is_same(plain)
    assert held[-1] == WHOLE
    assert len(held) == STEPS


def test_many_layers_make_way_at_once(plain: Curve) -> None:
    """The process has grown by more than the layer that lacks memory."""
    model, arena = llama(), arena_of(WHOLE)

    def take_room(*_: Any) -> None:
        arena.room = LAYER_HANDLES
        arena.take(sorted(arena.mapped)[-LAYER_HANDLES:])
        arena.set_grant(WHOLE)
        hook.remove()

    hook = layers(model)[0].mlp.register_full_backward_pre_hook(take_room)
    with Window(model, layers(model), arena, prefetch=False) as window:
        assert train(model).is_same(plain)
        assert window.counts.waits == 0


def test_inputs_get_no_room_that_two_layers_need(plain: Curve) -> None:
    inputs = 4
    model, arena = llama(), arena_of(WHOLE + inputs, WHOLE + inputs)
    arena.room = LAYER_HANDLES + 1
    with Window(model, layers(model), arena, input_handles=inputs, prefetch=False) as window:
        assert train(model).is_same(plain)
        assert window.counts.waits == 0


def test_without_room_for_a_layer_it_waits_and_says_why(plain: Curve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortage, "GRACE_SECONDS", 0.0)
    model, arena = llama(), arena_of(WHOLE)

    def take_room(*_: Any) -> None:
        arena.room = LAYER_HANDLES - 1
        arena.take(sorted(arena.mapped))
        arena.set_grant(WHOLE)
        hook.remove()

    hook = layers(model)[3].mlp.register_forward_hook(take_room)
    with Window(model, layers(model), arena), capture_logs() as logs, ThreadPoolExecutor(1) as pool:
        training = pool.submit(train, model)
        until(lambda: training.done() or bool(warnings(logs)), "it says that it waits")
        arena.room = WHOLE
        assert training.result(120).is_same(plain)
    (said,) = warnings(logs)
    assert "the pod's memory limit" in said["event"]
    assert said["handles_granted"] == LAYER_HANDLES - 1 < said["handles_needed"] == LAYER_HANDLES


def warnings(logs: list[Any]) -> list[Any]:
    return [entry for entry in logs if entry["log_level"] == "warning"]


def changing(arena: Any) -> Callable[[threading.Event], None]:
    """Has the room change all the time."""

    def change(ended: threading.Event) -> None:
        rooms = [0, LAYER_HANDLES, LAYER_HANDLES + 2, WHOLE]
        while not ended.wait(0.002):
            arena.room = rooms.pop(0)
            rooms.append(arena.room)

    return change


@pytest.mark.parametrize("inputs", [0, 4])
def test_room_that_comes_and_goes_changes_nothing(inputs: int, plain: Curve) -> None:
    model, arena = llama(), arena_of(WHOLE + inputs, WHOLE + inputs)
    with Window(model, layers(model), arena, input_handles=inputs), beside(changing(arena)):
        assert train(model).is_same(plain)
