"""The adapter's files."""

import json
from pathlib import Path

import torch
from runtime.tuning_runs import spec
from safetensors import safe_open

from rowen.runtime.tuning.adapter import adapter_files, add_adapter, load_base


def test_the_same_adapter_is_the_same_bytes(tiny_model: Path, tmp_path: Path) -> None:
    model = add_adapter(load_base(tiny_model), spec(tiny_model, tmp_path / "data.jsonl", tmp_path))
    assert len({adapter_files(model, "base", "digest")["adapter_model.safetensors"] for _ in range(20)}) == 1


def test_the_weights_bear_the_mark_and_are_whole(tiny_model: Path, tmp_path: Path) -> None:
    model = add_adapter(load_base(tiny_model), spec(tiny_model, tmp_path / "data.jsonl", tmp_path))
    # Any length of the mark leaves the tensors where they can be mapped.
    for length in range(1, 10):
        files = adapter_files(model, "base", "d" * length)
        data = files["adapter_model.safetensors"]
        (tmp_path / "adapter_model.safetensors").write_bytes(data)
        assert int.from_bytes(data[:8], "little") % 8 == 0
        with safe_open(tmp_path / "adapter_model.safetensors", framework="pt") as stream:
            assert stream.metadata() == {"format": "pt", "rowen": "d" * length}
            written = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - no mapping
        trained = {name.replace(".default", ""): value for name, value in model.named_parameters() if "lora_" in name}
        assert written.keys() == trained.keys()
        assert all(torch.equal(written[name], trained[name]) for name in written)
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == "base"
