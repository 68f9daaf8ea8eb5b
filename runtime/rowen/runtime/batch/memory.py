"""How much of a job's memory its key-value cache takes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rowen.crds.base import quantity_text
from rowen.runtime.batch.weights import weights_bytes
from rowen.runtime.failure import WorkerError, input_failure, is_passing, reading

OVERHEAD_BYTES = 1536 * 2**20
"""Interpreter, libraries and activations of a vLLM process, beside weights and cache."""
MAX_SEQUENCES = 16
"""Requests that are decoded together."""

_NOTHING_FITS = "Cannot auto-fit max_model_len"
"""How vLLM says so; it has no kind of error of its own for it."""
_FLOAT32_BYTES = 4
"""The widest type of a cache."""
_BLOCK_TOKENS = 128
"""vLLM's on a CPU, its largest."""
_FIELDS = (
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
    "max_position_embeddings",
)  # fmt: skip


def cache_bytes(model: Path, memory_bytes: int, dtype: str) -> int:
    """Bytes for the cache: what weights of this type leave, and no more than all sequences at full length can use.

    Raises `WorkerError` when the weights leave nothing, and when the configuration does not tell the model's size.
    """
    left = bytes_left(model, memory_bytes, dtype, 1)
    try:
        return min(left, useful_bytes(text_configuration(model)))
    except (OSError, RecursionError, ValueError) as error:
        message = f"the size of the cache cannot be told from {model / 'config.json'}: {error}"
        raise input_failure("ModelMissing", message, error) from error


def bytes_left(model: Path, memory_bytes: int, dtype: str, least: int) -> int:
    """What weights and vLLM leave of so many bytes. Raises `WorkerError` when it is less than `least`."""
    with reading("ModelMissing", model):
        weights = weights_bytes(model, dtype)
    left = memory_bytes - weights - OVERHEAD_BYTES
    if left < least:
        needs = f"weights {quantity_text(weights)}, vLLM itself {quantity_text(OVERHEAD_BYTES)}"
        lacks = f"{quantity_text(memory_bytes)} is too little by {quantity_text(least - left)}"
        raise WorkerError("MemoryTooSmall", f"memory: {lacks}: {needs}")
    return left


def start_failure(error: ValueError, given: str) -> Exception:
    """What it means that vLLM does not start with the cache that it was given: its other errors may pass."""
    if _NOTHING_FITS not in str(error):
        return error
    return WorkerError("MemoryTooSmall", f"{given}: not one token fits")


def useful_bytes(config: Mapping[str, Any]) -> int:
    """Bytes of the keys and values of all sequences at full length, in whole blocks, and of vLLM's own block.

    Layers that look back over a window only are counted as if they kept everything. Raises `ValueError` that names
    the field.
    """
    heads = _number(config, "num_attention_heads")
    head = _optional(config, "head_dim") or _number(config, "hidden_size") // heads
    key_value_heads = _optional(config, "num_key_value_heads") or heads
    token = 2 * _number(config, "num_hidden_layers") * key_value_heads * head
    blocks = 1 + MAX_SEQUENCES * -(-_number(config, "max_position_embeddings") // _BLOCK_TOKENS)
    return blocks * _BLOCK_TOKENS * token * _FLOAT32_BYTES


def text_configuration(model: Path) -> Mapping[str, Any]:
    """The fields above of the model's text part; those that are not set are left out.

    Raises `ValueError`, `OSError`.
    """
    written = json.loads((model / "config.json").read_bytes())
    if not isinstance(written, dict):
        raise ValueError("it is not a JSON object")
    from transformers import AutoConfig

    try:
        # Knows the names and defaults of each architecture, and which part is the text's.
        config = AutoConfig.from_pretrained(model, trust_remote_code=False).get_text_config(decoder=True)
    except Exception as error:
        if is_passing(error):
            raise
        # An architecture that transformers does not know, or values that it refuses: what is written counts.
        text = written.get("text_config")
        fields = written | text if isinstance(text, dict) else written
        return {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
    return {name: getattr(config, name) for name in _FIELDS if getattr(config, name, None) is not None}


def _optional(config: Mapping[str, Any], name: str) -> int | None:
    return _number(config, name) if config.get(name) else None


def _number(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if value is None:
        raise ValueError(f"{name} is missing")
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a whole number above 0")
    return value
