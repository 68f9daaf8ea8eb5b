"""Tasks take what is said of them, and no more."""

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from coserve_training.engine import memory_for, result, run_parts
from coserve_training.models import draw_adapter, draw_sequences, task_of
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, LlamaConfig

from rowen.runtime.coserve.task import Target, Task
from rowen.runtime.coserve.training import memory
from rowen.runtime.coserve.training.group import Group
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.memory import (
    GROUP_TOKENS,
    gradient_bytes,
    groups_of,
    lowest_layer,
    needed_bytes,
    saved_bytes,
    saved_layers,
    task_bytes,
    task_workspace_bytes,
)
from rowen.runtime.coserve.training.model import Model

Models = Callable[..., Path]


@pytest.fixture
def few_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the head may take, some 30 MB, would hide what the rest of a small model does."""
    monkeypatch.setattr(memory, "HEAD_BYTES", 2**12)


def peak_bytes(folder: Path, task: Task, saved: int) -> int:
    """The most that torch had allocated at one time for the task, its kernels' own buffers included."""
    learner = MachineLearner(folder, memory_for(folder, task, saved))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        learner.add(1, task)
        run_parts(learner, 256)
        result(learner)
    assert profiled.profiler is not None
    events = profiled.profiler.kineto_results.events()
    changes = sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in changes))


@pytest.mark.usefixtures("few_logits")
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
    architecture = Model.of(folder).architecture
    kept = min(saved, 3 - lowest_layer(task, 3))
    more = saved_bytes(task, architecture, dtype, kept)
    # The guest's copy of the gradients is not the learner's.
    peak = peak_bytes(folder, task, saved) + gradient_bytes(task)
    assert task_bytes(task, architecture, dtype) + more <= peak <= needed_bytes(task, architecture, dtype) + more


@pytest.mark.usefixtures("few_logits")
@pytest.mark.parametrize(
    ("length", "dtype", "sizes"),
    [
        (300, torch.float32, {"intermediate_size": 1024}),
        (300, torch.float32, {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 128}),
        (300, torch.float32, {"hidden_size": 1024}),
        (512, torch.float32, {"num_attention_heads": 16, "head_dim": 4}),
        # Of float32 no copies are made.
        (1200, torch.bfloat16, {"head_dim": 1024}),
        (1000, torch.float32, {}),
        (100, torch.float32, {"vocab_size": 200_000}),
    ],
    ids=["feed-forward", "queries", "stream", "scores", "keys", "reach", "logits"],
)
def test_all_that_work_takes_is_counted(length: int, dtype: torch.dtype, sizes: dict[str, int], tmp_path: Path) -> None:
    """Each of it once where it is most of the workspace: what is said is too little without it."""
    folder = save_model(tmp_path, dtype, sizes)
    task = task_of(draw_adapter(folder, list(Target), rank=1), draw_sequences((length,)))
    architecture = Model.of(folder).architecture
    workspace = task_workspace_bytes(task, architecture)
    taken = peak_bytes(folder, task, 0) + gradient_bytes(task) - task_bytes(task, architecture, dtype)
    assert 0.3 * workspace <= taken <= workspace


def save_model(folder: Path, dtype: torch.dtype, sizes: dict[str, int]) -> Path:
    """Of one narrow layer, but for these sizes."""
    narrow = {
        "vocab_size": 96, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 2048,
    }  # fmt: skip
    config = LlamaConfig(**{**narrow, **sizes})
    AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(folder)
    return folder


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
    # The numbers of the learned tokens depend on the data: one each, at most.
    learned = group.learned.nbytes
    held = task_bytes(task, own.architecture, torch.float32) - 2 * gradient_bytes(task)
    assert sum(storages.values()) - learned + 8 * group.size == held


def test_sequences_go_together_as_far_as_they_fit() -> None:
    assert groups_of([]) == []
    assert groups_of([5]) == [range(1)]
    assert groups_of([GROUP_TOKENS + 1]) == [range(1)]
    assert groups_of([GROUP_TOKENS - 1, 1, 1]) == [range(2), range(2, 3)]
    assert groups_of([1, GROUP_TOKENS, 0, 0]) == [range(1), range(1, 4)]
