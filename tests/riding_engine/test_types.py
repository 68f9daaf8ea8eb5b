"""An engine may compute in another type than its model's files hold."""

from pathlib import Path

import pytest
import torch
from riding_engine.tasks import MEMORY_BYTES, task
from safetensors.torch import load_file, save_file

from rowen.runtime.coserve.task import Result, Task
from rowen.runtime.coserve.training.learner import MachineLearner


def copy(model: Path, folder: Path, dtype: torch.dtype) -> Path:
    """The model, with the same values, which have to fit."""
    folder.mkdir()
    (folder / "config.json").write_text((model / "config.json").read_text())
    tensors = load_file(model / "model.safetensors")
    save_file(
        {name: tensor.to(torch.bfloat16).to(dtype) for name, tensor in tensors.items()}, folder / "model.safetensors"
    )
    return folder


def worked(learner: MachineLearner, work: Task) -> Result:
    learner.add(0, work)
    while (part := learner.part(48)) is not None:
        part.run()
    ((_, result),) = learner.finished()
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_are_those_of_files_of_that_type(model: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    stored = copy(model, tmp_path / "wide", torch.float32), copy(model, tmp_path / "narrow", torch.bfloat16)
    same, other = stored if dtype == torch.float32 else stored[::-1]
    learners = MachineLearner(same, MEMORY_BYTES), MachineLearner(other, MEMORY_BYTES, dtype)
    assert {learner.dtype for learner in learners} == {dtype}
    # One matrix is turned over at a time, and takes memory.
    assert learners[0].memory_bytes == MEMORY_BYTES
    assert 0 < MEMORY_BYTES - learners[1].memory_bytes < 2**20
    work = task(model, 3)
    expected, found = (worked(learner, work) for learner in learners)
    assert found.loss_sum == expected.loss_sum
    for place, pair in expected.gradients.items():
        assert torch.equal(found.gradients[place].a, pair.a)
        assert torch.equal(found.gradients[place].b, pair.b)
