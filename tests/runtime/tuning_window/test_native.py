"""The window on the real arena, whose memory the pool takes away."""

import ctypes
from collections.abc import Callable
from typing import Any

from memory.members import admit, quarantine
from runtime.tuning_window.models import HANDLE_BYTES, LAYER_HANDLES, WHOLE, Curve, layers, llama, train

from rowen.node_agent.memory.pool import Pool
from rowen.runtime.memory.native_arena import NativeArena
from rowen.runtime.tuning.window.window import Window

INPUTS = 2


def test_taken_from_the_pools_side(library: ctypes.CDLL, make_pool: Callable[..., Pool], plain: Curve) -> None:
    pool = make_pool(WHOLE + INPUTS, HANDLE_BYTES)
    member = admit(pool, WHOLE + INPUTS, WHOLE + INPUTS)
    arena = NativeArena(library, member.arena, member.memory)
    taken: list[int] = []

    def take(*_: Any) -> None:
        if len(taken) < 4:
            # No other thread of this process touches the arena: nothing is prefetched here.
            taken.append(pool.reclaim(member.number, list(range(LAYER_HANDLES, WHOLE + INPUTS))))
            assert quarantine(library, arena) == 0
            pool.grant(member.number, 3 * LAYER_HANDLES + len(taken))

    model = llama()
    layers(model)[2].mlp.register_forward_hook(take)
    layers(model)[3].mlp.register_full_backward_pre_hook(take)
    with Window(model, layers(model), arena, prefetch=False, input_handles=INPUTS) as window:
        assert train(model).is_same(plain)
        assert window.counts.repeats == 4
    assert min(taken) > 0
    assert pool.status().of(member.number).held == 0
