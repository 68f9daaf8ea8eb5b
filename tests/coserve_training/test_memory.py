"""Tasks take what is said of them, and no more."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from coserve_training.engine import memory_for, result, run_parts
from coserve_training.models import draw_adapter, draw_sequences, task_of
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.group import Group
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.memory import (
    GROUP_TOKENS,
    groups_of,
    lowest_layer,
    needed_bytes,
    saved_bytes,
    saved_layers,
    task_bytes,
)
from rowen.runtime.coserve.training.model import Model

Models = Callable[..., Path]


class Peak(TorchDispatchMode):
    """The most bytes of tensors that lived at one time, of those made meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = (arg for arg in (*args, *(kwargs or {}).values()) if isinstance(arg, torch.Tensor))
        given = {id(tensor.untyped_storage()) for tensor in tensors}
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor) and id(tensor.untyped_storage()) not in given:
                self._add(tensor.untyped_storage())
        return found

    def _add(self, storage: torch.UntypedStorage) -> None:
        number, size = id(storage), storage.nbytes()
        if number in self._known:
            return

        def gone(_: object) -> None:
            del self._known[number]
            self._now -= size

        self._known[number] = weakref.ref(storage, gone)
        self._now += size
        self.peak = max(self.peak, self._now)


@pytest.mark.parametrize("saved", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("lengths", "gradients", "layers"),
    [((200, 150), True, None), ((30, 5), True, [2]), ((90,), False, None), ((256, 256, 256, 256, 40), True, [2])],
)
def test_a_task_takes_no_more_than_is_said(
    lengths: tuple[int, ...],
    gradients: bool,
    layers: list[int] | None,
    dtype: torch.dtype,
    saved: int,
    model: Models,
) -> None:
    folder = model("llama", dtype)
    adapted = draw_adapter(folder, list(Target), rank=8, layers=layers)
    task = task_of(adapted, draw_sequences(lengths), gradients=gradients)
    learner = MachineLearner(folder, memory_for(folder, task, saved))
    with Peak() as peak:
        learner.add(1, task)
        run_parts(learner, 256)
        result(learner)
    architecture = Model.of(folder).architecture
    kept = min(saved, 3 - lowest_layer(task, 3))
    more = saved_bytes(task, architecture, dtype, kept)
    assert peak.peak <= needed_bytes(task, architecture, dtype) + more
    assert peak.peak >= task_bytes(task, architecture, dtype) + more


def test_as_much_is_kept_as_there_is_memory_for(model: Models) -> None:
    folder = model("llama")
    own, task = Model.of(folder), task_of(draw_adapter(folder, [Target.UP], rank=2), draw_sequences((40, 25)))
    each = saved_bytes(task, own.architecture, torch.float32, 1)

    def layers(spare_bytes: int) -> int:
        return saved_layers(task, own.architecture, torch.float32, spare_bytes)

    assert [layers(spare) for spare in (-each, 0, each - 1, each, 3 * each - 1, 9 * each)] == [0, 0, 0, 1, 2, 3]
    group = Group(draw_sequences((40, 25)), own, 1, 2)
    kept = [group.saved(layer, 0, group.size) for layer in range(3)]
    assert kept[0] is None
    assert sum(tensor.nbytes for saved in kept if saved is not None for tensor in vars(saved).values()) == 2 * each


def test_a_group_takes_what_is_said(model: Models) -> None:
    folder = model("qwen3")
    own = Model.of(folder)
    sequences = draw_sequences((40, 25))
    task = task_of(draw_adapter(folder, [Target.UP], rank=2, layers=[1, 2]), sequences)
    group = Group(sequences, own, 1)
    tensors = [each for each in vars(group).values() if isinstance(each, torch.Tensor)]
    angles = [each for each in vars(group.angles).values() if isinstance(each, torch.Tensor)]
    storages = {id(each.untyped_storage()): each.untyped_storage().nbytes() for each in [*tensors, *angles]}
    gradients = sum(pair.a.nbytes + pair.b.nbytes for pair in task.adapter.pairs.values())
    # The numbers of the learned tokens depend on the data: one each, at most.
    learned = group.learned.nbytes
    held = task_bytes(task, own.architecture, torch.float32) - gradients
    assert sum(storages.values()) - learned + 8 * group.size == held


def test_sequences_go_together_as_far_as_they_fit() -> None:
    assert groups_of([]) == []
    assert groups_of([5]) == [range(1)]
    assert groups_of([GROUP_TOKENS + 1]) == [range(1)]
    assert groups_of([GROUP_TOKENS - 1, 1, 1]) == [range(2), range(2, 3)]
    assert groups_of([1, GROUP_TOKENS, 0, 0]) == [range(1), range(1, 4)]
