"""What a job may not ask for is refused, with what is wrong, and without its data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from coserve_training.models import draw_adapter, draw_sequences, task_of

from rowen.runtime.coserve.task import Adapter, Pair, Place, Sequence, Target, Task, TaskUnsuitable
from rowen.runtime.coserve.training.architecture import Architecture, read_architecture
from rowen.runtime.coserve.training.checks import check_task
from rowen.runtime.coserve.training.memory import needed_bytes

Models = Callable[..., Path]
PLACE: Place = (1, Target.UP)


@pytest.fixture
def architecture(model: Models) -> Architecture:
    return read_architecture(model("llama"))


@pytest.fixture
def task(model: Models) -> Task:
    return task_of(draw_adapter(model("llama"), [Target.UP], rank=2), draw_sequences((9, 5)))


def refused(task: Task, architecture: Architecture, message: str, memory_bytes: int = 10**9) -> None:
    with pytest.raises(TaskUnsuitable, match=message):
        check_task(task, architecture, torch.float32, memory_bytes)


def with_pair(task: Task, place: Place, a: torch.Tensor, b: torch.Tensor) -> Task:
    return replace(task, adapter=Adapter(1.0, {place: Pair(a, b)}))


def with_second(task: Task, tokens: torch.Tensor, labels: torch.Tensor) -> Task:
    return replace(task, sequences=(task.sequences[0], Sequence(tokens, labels)))


def test_what_is_in_order_passes(task: Task, architecture: Architecture) -> None:
    check_task(task, architecture, torch.float32, 10**9)
    check_task(replace(task, sequences=()), architecture, torch.float32, 10**9)
    longest = torch.zeros(architecture.longest_tokens, dtype=torch.int64)
    check_task(with_second(task, longest, longest), architecture, torch.float32, 10**9)
    check_task(with_second(task, longest[:0], longest[:0]), architecture, torch.float32, 10**9)


@pytest.mark.parametrize("token", [-1, 96, 2**62, -(2**63), -100])
def test_tokens_outside_of_the_vocabulary(token: int, task: Task, architecture: Architecture) -> None:
    good = torch.tensor([0, 95])
    refused(with_second(task, torch.tensor([3, token]), good), architecture, "sequence 1 has a token outside")
    if token != -100:
        refused(with_second(task, good, torch.tensor([token, 3])), architecture, "sequence 1 has a label outside")


def test_tokens_and_labels_of_other_shapes(task: Task, architecture: Architecture) -> None:
    row = torch.zeros(4, dtype=torch.int64)
    for tokens, labels in ((row, row[:3]), (row.float(), row), (row, row.int()), (row.view(2, 2), row.view(2, 2))):
        refused(with_second(task, tokens, labels), architecture, "sequence 1: tokens and labels")


def test_a_sequence_that_is_too_long(task: Task, architecture: Architecture, model: Models) -> None:
    row = torch.zeros(257, dtype=torch.int64)
    refused(with_second(task, row, row), architecture, "sequence 1 has 257 tokens; the model takes 256")
    # Its attention reaches back half as far.
    refused(with_second(task, row[:129], row[:129]), read_architecture(model("mistral")), "takes 128")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300, -3.5e38])
def test_numbers_that_are_not_finite(number: float, task: Task, architecture: Architecture) -> None:
    refused(replace(task, loss_scale=number), architecture, "loss scale")
    refused(replace(task, adapter=replace(task.adapter, scaling=number)), architecture, "scaling")


@pytest.mark.parametrize("layer", [-1, 3, 10**30])
def test_layers_that_the_model_does_not_have(layer: int, task: Task, architecture: Architecture) -> None:
    pair = Pair(torch.zeros(2, 64), torch.zeros(112, 2))
    refused(with_pair(task, (layer, Target.UP), pair.a, pair.b), architecture, f"no layer {layer} with a up_proj")


def test_matrices_that_do_not_fit(task: Task, architecture: Architecture) -> None:
    a, b = torch.zeros(2, 64), torch.zeros(112, 2)
    for wrong_a, wrong_b in ((a, b.t()), (a[:, 1:], b), (a, torch.zeros(112, 3)), (a[None], b), (a, b[0])):
        refused(with_pair(task, PLACE, wrong_a, wrong_b), architecture, "the shapes|rank")
    refused(with_pair(task, PLACE, a.double(), b), architecture, "not of float32")
    refused(with_pair(task, PLACE, torch.zeros(0, 64), torch.zeros(112, 0)), architecture, "rank is 0")
    refused(with_pair(task, PLACE, torch.zeros(513, 64), torch.zeros(112, 513)), architecture, "rank is 513")
    refused(with_pair(task, PLACE, torch.tensor(1.0), b), architecture, "rank is 0")


def test_more_memory_than_there_is(task: Task, architecture: Architecture) -> None:
    needed = needed_bytes(task, architecture, torch.float32)
    check_task(task, architecture, torch.float32, needed)
    refused(task, architecture, f"needs {needed} bytes", needed - 1)
