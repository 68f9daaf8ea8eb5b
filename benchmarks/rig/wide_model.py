"""A benchmark's model in float32."""

import json
from pathlib import Path


def widen(model: Path) -> None:
    """Stores the weights of the folder in float32, in which all compute here: every CPU is fast in it."""
    from safetensors.torch import load_file, save_file

    weights = {name: tensor.float() for name, tensor in load_file(model / "model.safetensors").items()}
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps(settings | {"dtype": "float32"}), encoding="utf-8")
