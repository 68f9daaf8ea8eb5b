"""What the learner keeps is held against what Algorithm 1 memorizes of transformers' own layer."""

from pathlib import Path

import pytest
import torch
from coserve_training.models import draw_adapter, draw_sequences, make_model, task_of
from torch import fx

from rowen.runtime.coserve.pruning.pruning import activations, live, prune
from rowen.runtime.coserve.pruning.trace import Traced, trace
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.group import Group
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.parts import next_part
from rowen.runtime.coserve.training.work import Work

TOKENS = 24


class Values(fx.Interpreter):
    """Notes what each node makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> object:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            self.found[n.name] = value
        return value


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Traced, dict[str, torch.Tensor], Group]:
    """The graph of a model's second layer, the values in it, and what the learner kept of the same tokens."""
    folder: Path = make_model(tmp_path_factory.mktemp("model"), "llama")
    adapted = draw_adapter(folder, list(Target), rank=4)
    task = task_of(adapted, draw_sequences((TOKENS,)))
    decoder = adapted.base_model.model.model
    decoder.config._attn_implementation = "sdpa"
    own = Model.of(folder)
    work = Work(task, own)
    next_part(work, own, 3 * TOKENS, lambda: None).run()
    group = work._now
    inputs = group.inputs(1).clone()[None]
    angles = decoder.rotary_emb(inputs, torch.arange(TOKENS)[None])
    traced = trace(decoder.layers[1], inputs, angles)
    values = Values(traced.module)
    parameters = [weight.detach() for weight in decoder.layers[1].parameters()]
    with torch.no_grad():
        values.run(torch.ones_like(inputs), inputs, *angles, *parameters)
    return traced, values.found, group


def wanted(traced: Traced) -> list[str]:
    return [name for parameter, name in traced.gradients.items() if not parameter or "lora_" in parameter]


def holding(values: dict[str, torch.Tensor], kept: torch.Tensor) -> set[str]:
    """Names of tensors with the values [tokens, ...] in some order of dimensions."""
    flat = kept.flatten().sort().values
    same = set()
    for name, value in values.items():
        if value.numel() == flat.numel() and torch.allclose(value.flatten().sort().values, flat, atol=1e-5):
            same.add(name)
    return same


def test_frozen_weights_have_a_gradient_in_the_graph_and_none_after_pruning(
    layer: tuple[Traced, dict[str, torch.Tensor], Group],
) -> None:
    traced = layer[0]
    names = {each.name for each in live(traced.joint.backward, wanted(traced))}
    for parameter, gradient in traced.gradients.items():
        assert (gradient in names) == (not parameter or "lora_" in parameter), parameter


def test_what_the_learner_keeps_is_among_what_is_memorized(
    layer: tuple[Traced, dict[str, torch.Tensor], Group],
) -> None:
    traced, values, group = layer
    needed = activations(traced.joint, wanted(traced))
    kept = prune(traced.joint, wanted(traced), 16.0, traced.weights | {traced.inputs})
    assert traced.inputs in holding(values, group.inputs(1))
    # Rotated keys, and values: the graph's attention reads them.
    for mine in (group.keys[1], group.values[1]):
        assert holding(values, mine)
    # It keeps a fraction of what the algorithm memorizes: all else it makes again.
    mine_bytes = group.inputs(1).nbytes + group.keys[1].nbytes + group.values[1].nbytes
    sizes = {each.name: each.size_bytes for each in traced.joint.forward}
    assert mine_bytes < 0.5 * sum(sizes[name] for name in kept.memorized)
    assert kept.memorized < needed
