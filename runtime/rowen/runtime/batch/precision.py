"""The type of number that a batch job's model computes in."""

import json
from pathlib import Path

import structlog

log = structlog.get_logger()

FLOAT32 = "float32"
_HALVES = ("bfloat16", "float16")


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
    stored = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    return 2 * stored if dtype == FLOAT32 and _is_stored_in_halves(model) else stored


def _is_stored_in_halves(model: Path) -> bool:
    try:
        config = json.loads((model / "config.json").read_bytes())
    except (OSError, ValueError):
        # Whoever reads it next says what is wrong with it.
        return False
    written = isinstance(config, dict) and (config.get("dtype") or config.get("torch_dtype"))
    return written in _HALVES
