"""The type of number that a batch job's model computes in."""

from math import prod
from pathlib import Path

import structlog
from safetensors import SafetensorError, safe_open

log = structlog.get_logger()

FLOAT32 = "float32"
_HALVES = ("BF16", "F16")


def has_fast_halves() -> bool:
    """Whether this device computes 16-bit numbers as fast as 32-bit ones; a CPU without instructions for them does not.

    On one with AVX2 alone, a product of matrices in bfloat16 took four to eight times as long as in float32.
    """
    import torch

    return bool(torch.cuda.is_available() or torch.ops.mkldnn._is_mkldnn_bf16_supported())


def chosen() -> str:
    """The `dtype` for vLLM: the model's own type, or float32 where that would be many times slower."""
    if has_fast_halves():
        return "auto"
    log.info("this CPU has no instructions for 16-bit numbers: the model computes in float32")
    return FLOAT32


def weights_bytes(model: Path, dtype: str) -> int:
    """Bytes of the model's weights in memory. Raises `OSError`."""
    files = list(model.glob("*.safetensors"))
    stored = sum(path.stat().st_size for path in files)
    # Each number of two bytes takes two more.
    return stored + sum(map(_halves_bytes, files)) if dtype == FLOAT32 else stored


def _halves_bytes(file: Path) -> int:
    """Bytes of the file's 16-bit numbers."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            places = [tensors.get_slice(name) for name in tensors.keys()]  # noqa: SIM118
            return sum(2 * prod(place.get_shape()) for place in places if place.get_dtype() in _HALVES)
    except SafetensorError:
        # Whoever reads the weights says what is wrong with them.
        return 0
