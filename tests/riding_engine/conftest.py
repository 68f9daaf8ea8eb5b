"""Fixtures: a tiny model, an adapter that its engine serves, and what became of the scenarios."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from runtime.server import environment
from safetensors.torch import load_file, save_file

from rowen.demo.samples import Shape, write_model

Results = dict[str, str | None]

HIDDEN = 64
SHAPE = Shape(layers=3, hidden=HIDDEN, intermediate=128, heads=2, key_value_heads=1)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, SHAPE)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    weights = folder / "model.safetensors"
    # Larger ones, so that answers differ.
    save_file({name: 3 * tensor.float() for name, tensor in load_file(weights).items()}, weights)
    return folder


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On all layers' attention, large enough that answers differ."""
    folder = tmp_path_factory.mktemp("adapters") / "served"
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "o_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "bias": "none", "task_type": "CAUSAL_LM"}))
    draw = torch.Generator().manual_seed(1)
    prefix = "base_model.model.model.layers"
    save_file(
        {
            f"{prefix}.{layer}.self_attn.{name}.lora_{letter}.weight": torch.randn(*shape, generator=draw) * 0.1
            for layer in range(SHAPE.layers)
            for name in ("q_proj", "o_proj")
            for letter, shape in (("A", (4, HIDDEN)), ("B", (HIDDEN, 4)))
        },
        folder / "adapter_model.safetensors",
    )
    return folder


@pytest.fixture(scope="session")
def results(model: Path, adapter: Path) -> Results:
    """By scenario None, or what went wrong."""
    script = Path(__file__).with_name("run.py")
    ended = subprocess.run([sys.executable, script, model, adapter], capture_output=True, text=True, env=environment())
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: Results = json.loads(ended.stdout.splitlines()[-1])
    return found
