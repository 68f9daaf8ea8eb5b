"""Which models can be trained on, and what is said of the others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from coserve_training.engine import MEMORY_BYTES
from coserve_training.models import load
from safetensors.torch import load_file, save_file

from rowen.runtime.coserve.training.architecture import ArchitectureUnsupported, read_architecture
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.model import Model

Models = Callable[..., Path]


@pytest.fixture
def folder(model: Models, tmp_path: Path) -> Path:
    """A copy that can be spoilt."""
    for path in model("llama").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def change(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mixtral"}, "type mixtral"),
        ({"model_type": "gemma2"}, "type gemma2"),
        ({"model_type": "nonsense"}, "cannot be read"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"attention_dropout": 0.1}, "dropout"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "type dynamic"),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "a part of each head",
        ),
    ],
)
def test_models_that_are_not_supported(folder: Path, changes: dict[str, Any], message: str) -> None:
    change(folder, **changes)
    with pytest.raises(ArchitectureUnsupported, match=message):
        read_architecture(folder)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ArchitectureUnsupported, match="configuration cannot be read"):
        MachineLearner(tmp_path, MEMORY_BYTES)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tensors: tensors.pop("lm_head.weight"), "no lm_head.weight"),
        (lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"), "no model.layers.1.mlp.up_proj.weight"),
        (
            lambda tensors: tensors.update({"model.norm.weight": torch.ones(63)}),
            r"model.norm.weight has the shape \[63\] instead of \[64\]",
        ),
        (
            lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"].bfloat16()}),
            "lm_head.weight is of type torch.bfloat16",
        ),
        (
            lambda tensors: tensors.update({name: tensor.half() for name, tensor in tensors.items()}),
            "type torch.float16",
        ),
    ],
)
def test_weights_that_do_not_fit(folder: Path, spoil: Callable[[Any], Any], message: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    spoil(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ArchitectureUnsupported, match=message):
        MachineLearner(folder, MEMORY_BYTES)


def test_files_that_are_broken(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ArchitectureUnsupported, match="weights cannot be read"):
        MachineLearner(folder, MEMORY_BYTES)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ArchitectureUnsupported, match="no safetensors files"):
        MachineLearner(folder, MEMORY_BYTES)


def test_weights_in_several_files(folder: Path, model: Models) -> None:
    load(model("llama")).save_pretrained(folder / "split", max_shard_size="100KB")
    assert (folder / "split" / "model.safetensors.index.json").exists()
    split, whole = Model.of(folder / "split"), Model.of(model("llama"))
    assert torch.equal(split.weights.head, whole.weights.head)
    assert torch.equal(split.weights.embedding, whole.weights.embedding)
