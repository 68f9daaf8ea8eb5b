"""Losses and gradients are those of PEFT and autograd on the same data."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from coserve_training.engine import MEMORY_BYTES, Engine, alone, furthest, memory_for, result, ride
from coserve_training.models import CONFIGS, by_autograd, draw_adapter, draw_sequences, task_of
from transformers import AutoModelForCausalLM

from rowen.runtime.coserve.task import IGNORED, Result, Sequence, Target
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.wire.layout import AdapterLayout

ALL = list(Target)
LENGTHS = (37, 1, 52, 18)
CLOSE = 2e-5

Models = Callable[..., Path]


def assert_same(found: Result, expected: Result) -> None:
    assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    assert (found.learned_tokens, found.correct_tokens) == (expected.learned_tokens, expected.correct_tokens)
    assert furthest(found, expected) <= CLOSE


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_task_is_as_by_autograd(kind: str, model: Models) -> None:
    folder = model(kind)
    adapted = draw_adapter(folder, ALL, rank=4)
    task = task_of(adapted, draw_sequences(LENGTHS))
    expected = by_autograd(adapted, task)
    for layers in (0, 2, 3):
        memory_bytes = memory_for(folder, task, layers)
        assert_same(alone(folder, task, 300, memory_bytes), expected)
        assert_same(alone(folder, task, 7, memory_bytes), expected)


@pytest.mark.parametrize("tokens", [1, 2, 16, 31, 64])
def test_the_size_of_windows_does_not_matter(tokens: int, model: Models) -> None:
    folder = model("llama")
    adapted = draw_adapter(folder, ALL, rank=3)
    task = task_of(adapted, draw_sequences((29, 9)))
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    ride(learner, Engine(folder), tokens)
    assert_same(result(learner), by_autograd(adapted, task))


@pytest.mark.parametrize("targets", [[target] for target in ALL] + [[Target.QUERY, Target.VALUE]])
def test_any_linear_layers_may_be_adapted(targets: list[Target], model: Models) -> None:
    folder = model("qwen3")
    adapted = draw_adapter(folder, targets, rank=5)
    task = task_of(adapted, draw_sequences((23, 11)))
    expected = by_autograd(adapted, task)
    assert_same(alone(folder, task, 10), expected)
    assert_same(alone(folder, task, 10, memory_for(folder, task, 0)), expected)


@pytest.mark.parametrize("layers", [[0], [1], [2], [0, 2]])
def test_any_layers_may_be_adapted(layers: list[int], model: Models) -> None:
    folder = model("llama")
    adapted = draw_adapter(folder, ALL, rank=2, layers=layers)
    task = task_of(adapted, draw_sequences((23, 11)))
    assert_same(alone(folder, task, 10), by_autograd(adapted, task))


def test_a_window_may_be_larger_than_a_machine_takes_at_once(model: Models) -> None:
    folder = model("qwen2")
    adapted = draw_adapter(folder, ALL, rank=2)
    # Of more tokens than go through at once, and of more than one group.
    task = task_of(adapted, draw_sequences((250, 240, 230, 220, 200, 180)))
    assert_same(alone(folder, task, 10_000), by_autograd(adapted, task))


def test_losses_alone(model: Models) -> None:
    folder = model("mistral")
    adapted = draw_adapter(folder, ALL, rank=4)
    task = task_of(adapted, draw_sequences(LENGTHS), gradients=False)
    found = alone(folder, task, 20)
    assert_same(found, by_autograd(adapted, task))
    assert not found.gradients


def test_the_base_model_has_no_adapter(model: Models) -> None:
    folder = model("llama")
    base = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    for gradients in (False, True):
        task = task_of(base, draw_sequences(LENGTHS), gradients=gradients)
        found = alone(folder, task, 20)
        assert found.loss_sum == pytest.approx(_base_loss(base, task.sequences), rel=1e-6)
        assert not found.gradients


@torch.no_grad()
def _base_loss(base: torch.nn.Module, sequences: tuple[Sequence, ...]) -> float:
    total = 0.0
    for sequence in sequences:
        logits = base(input_ids=sequence.tokens[None]).logits[0]
        total += float(
            torch.nn.functional.cross_entropy(logits, sequence.labels, reduction="sum", ignore_index=IGNORED)
        )
    return total


def test_what_learns_nothing_has_gradients_of_zero(model: Models) -> None:
    folder = model("llama")
    adapted = draw_adapter(folder, [Target.UP], rank=2)
    (sequence,) = draw_sequences((9,))
    empty = Sequence(sequence.tokens[:0], sequence.labels[:0])
    for sequences in ((), (empty,), (Sequence(sequence.tokens, torch.full_like(sequence.labels, IGNORED)), empty)):
        found = alone(folder, task_of(adapted, sequences))
        assert (found.loss_sum, found.learned_tokens) == (0.0, 0)
        assert len(found.gradients) == 3
        assert not any(pair.a.any() or pair.b.any() for pair in found.gradients.values())
        # They may be as large as all the riders' memory, and are made where a step is about to begin.
        assert {pair.a.untyped_storage().nbytes() for pair in found.gradients.values()} == {4}
        layout = AdapterLayout(2, tuple(found.gradients), {Target.UP: (64, 112)})
        written = b"".join(piece.tobytes() for piece in layout.pieces(found.gradients))
        assert written == bytes(layout.size_bytes)


def test_a_loss_that_is_no_number_is_returned(model: Models) -> None:
    folder = model("llama")
    adapted = draw_adapter(folder, [Target.UP], rank=2)
    task = task_of(adapted, draw_sequences((9,)))
    next(iter(task.adapter.pairs.values())).a.fill_(float("nan"))
    assert alone(folder, task).loss_sum != alone(folder, task).loss_sum


def test_bfloat16_is_as_near_to_the_truth_as_autograd_is(model: Models) -> None:
    folder = model("llama", torch.bfloat16)
    adapted = draw_adapter(folder, ALL, rank=4)
    task = task_of(adapted, draw_sequences(LENGTHS))
    by_peft, found = by_autograd(adapted, task), alone(folder, task, 20)
    truth = by_autograd(adapted.float(), task)
    assert found.loss_sum == pytest.approx(truth.loss_sum, rel=5e-3)
    assert furthest(found, truth) <= 1.5 * furthest(by_peft, truth)


def test_results_can_be_computed_with_outside_of_the_engines_mode(model: Models) -> None:
    folder = model("llama")
    adapted = draw_adapter(folder, ALL, rank=4)
    with torch.inference_mode():
        found = alone(folder, task_of(adapted, draw_sequences((9,))))
    for pair in found.gradients.values():
        pair.a.mul_(0.5)
        pair.b.mul_(0.5)
