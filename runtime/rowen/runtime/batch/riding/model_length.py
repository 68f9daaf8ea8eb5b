"""How long a model's sequences are by itself."""

import json
from typing import Any

from rowen.crds.job.worker import ModelLocation
from rowen.runtime.failure import WorkerError
from rowen.runtime.model_source import model_folder

_NOT_SCALED = ("llama3", "yarn")
"""Rotations whose factor vLLM has in `max_position_embeddings` already."""


def model_length(model: ModelLocation) -> int | None:
    """Most tokens of a sequence in any engine, by the model's configuration; None: not known."""
    try:
        folder = model_folder(model, files=("config.json",))
        config = json.loads((folder / "config.json").read_bytes())
        return _length(config.get("text_config") or config)
    except (AttributeError, OSError, RecursionError, ValueError, WorkerError):
        return None


def _length(config: dict[str, Any]) -> int | None:
    length = config.get("max_position_embeddings")
    rotation = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = rotation.get("rope_type") or rotation.get("type")
    scaled = "factor" in rotation and kind not in _NOT_SCALED
    by_layer = any(isinstance(value, dict) for value in rotation.values())
    return length if type(length) is int and not scaled and not by_layer else None
