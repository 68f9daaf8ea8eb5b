"""How much of a job's memory its key-value cache takes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowen.crds.base import quantity_text
from rowen.crds.job.worker import ExitCode
from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.batch.weights import weights_bytes
from rowen.runtime.failure import WorkerError, input_failure, is_passing, reading

OVERHEAD_BYTES = 2048 * 2**20
"""Interpreters, libraries and activations of vLLM's two processes, beside weights and cache."""
MOST_SEQUENCES = 256
"""Requests that are decoded together where the cache has room for them. More bring little, and need memory of their own
for the logits."""
LEAST_SEQUENCES = 4
_TYPICAL_TOKENS = 256
"""Of a prompt and its answer together. Where rows are longer, vLLM lets those wait for which there is no room."""

_NOTHING_FITS = "Cannot auto-fit max_model_len"
_OTHERS_TAKE_IT = ("Available memory on node", "Free memory on device")
"""How vLLM says so, of each, on CPUs and on GPUs; it has no kinds of errors of its own for them."""
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
    with _configured(model) as config:
        return min(left, useful_bytes(config))


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


def sequences_in(model: Path, cache_bytes: int, dtype: str) -> int:
    """How many requests are decoded together with such a cache. Raises as `cache_bytes`."""
    with _configured(model) as config:
        # Other types than float32 have two bytes or fewer.
        token_bytes = _token_numbers(config) * (_FLOAT32_BYTES if dtype == FLOAT32 else _FLOAT32_BYTES // 2)
        tokens = min(_TYPICAL_TOKENS, _number(config, "max_position_embeddings"))
    return max(LEAST_SEQUENCES, min(MOST_SEQUENCES, cache_bytes // token_bytes // tokens))


def start_failure(kind: str, message: str, given: str, *, refused: bool) -> WorkerError:
    """What it means that vLLM's process ends with such an error at its start, with the cache that it was given.

    `refused`: it does not take the model or an argument.
    """
    if kind == "TooLittleError":
        return WorkerError("MemoryTooSmall", message)
    if kind == "UnsuitableError":
        return WorkerError("ModelUnsuitable", message)
    if _NOTHING_FITS in message:
        return WorkerError("MemoryTooSmall", f"{given}: not one token fits")
    if refused and not any(words in message for words in _OTHERS_TAKE_IT):
        return WorkerError("ModelUnsuitable", f"vLLM refuses the model or its arguments: {kind}: {message}")
    return WorkerError("Failed", f"vLLM does not start: {kind}: {message}", ExitCode.RETRY)


def useful_bytes(config: Mapping[str, Any]) -> int:
    """Bytes of the keys and values of all sequences at full length, in whole blocks, and of vLLM's own block.

    Layers that look back over a window only are counted as if they kept everything. Raises `ValueError` that names
    the field.
    """
    token_bytes = _token_numbers(config) * _FLOAT32_BYTES
    blocks = 1 + MOST_SEQUENCES * -(-_number(config, "max_position_embeddings") // _BLOCK_TOKENS)
    return blocks * _BLOCK_TOKENS * token_bytes


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


@contextmanager
def _configured(model: Path) -> Iterator[Mapping[str, Any]]:
    """The model's configuration. Raises `WorkerError` where it does not tell what is asked of it."""
    try:
        yield text_configuration(model)
    except (OSError, RecursionError, ValueError) as error:
        message = f"the size of the cache cannot be told from {model / 'config.json'}: {error}"
        raise input_failure("ModelMissing", message, error) from error


def _token_numbers(config: Mapping[str, Any]) -> int:
    """Of a token's keys and values over all layers. Raises `ValueError` that names the field."""
    heads = _number(config, "num_attention_heads")
    head = _optional(config, "head_dim") or _number(config, "hidden_size") // heads
    return 2 * _number(config, "num_hidden_layers") * (_optional(config, "num_key_value_heads") or heads) * head


def _optional(config: Mapping[str, Any], name: str) -> int | None:
    return _number(config, name) if config.get(name) else None


def _number(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if value is None:
        raise ValueError(f"{name} is missing")
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a whole number above 0")
    return value
