"""How much of a job's memory its key-value cache takes."""

import json
from pathlib import Path

from rowen.runtime.failure import WorkerError

OVERHEAD_BYTES = 1536 * 2**20
"""Interpreter, libraries and activations of a vLLM process, beside weights and cache."""
MAX_SEQUENCES = 16
"""Requests that are decoded together."""

_HALF_PRECISION_BYTES = 2


def cache_bytes(model: Path, memory_bytes: int) -> int:
    """Bytes for the cache: what the weights leave, and no more than all sequences at full length can use.

    Raises `WorkerError` when the weights leave nothing.
    """
    weights = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    left = memory_bytes - weights - OVERHEAD_BYTES
    if left <= 0:
        message = f"{memory_bytes} bytes are too few: weights {weights}, vLLM itself {OVERHEAD_BYTES}"
        raise WorkerError("MemoryTooSmall", message)
    return min(left, useful_bytes(json.loads((model / "config.json").read_text())))


def useful_bytes(config: dict[str, int]) -> int:
    """Bytes of the keys and values of all sequences at full length, with the attention that takes the most."""
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    token = 2 * config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * head
    return MAX_SEQUENCES * config["max_position_embeddings"] * token * 2 * _HALF_PRECISION_BYTES
