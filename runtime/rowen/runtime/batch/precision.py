"""The type of number that a batch job's model computes in."""

import json
from pathlib import Path

import structlog

log = structlog.get_logger()

FLOAT32 = "float32"
_QUANTIZATIONS = ("quantization_config", "compression_config")


def has_fast_halves() -> bool:
    """Whether this device computes 16-bit numbers no slower than 32-bit ones, as oneDNN judges bfloat16 on a CPU.

    On one with AVX2 alone, a product of matrices in bfloat16 took four to eight times as long as in float32.
    """
    import torch

    return bool(torch.cuda.is_available() or torch.ops.mkldnn._is_mkldnn_bf16_supported())


def chosen(model: Path) -> str:
    """The `dtype` for vLLM: its own choice, or float32 where that would be many times slower."""
    if has_fast_halves() or _is_quantized(model):
        return "auto"
    log.info("this CPU is slow with 16-bit numbers: the model computes in float32")
    return FLOAT32


def _is_quantized(model: Path) -> bool:
    """Quantized weights have kernels of their own, which may take no float32. They are told as vLLM tells them."""
    if (model / "hf_quant_config.json").exists():
        return True
    try:
        config = json.loads((model / "config.json").read_bytes())
    except (OSError, RecursionError, ValueError):
        # Whoever reads it next says what is wrong with it.
        return False
    parts = [config, config.get("text_config")] if isinstance(config, dict) else []
    return any(part.get(key) for part in parts if isinstance(part, dict) for key in _QUANTIZATIONS)
