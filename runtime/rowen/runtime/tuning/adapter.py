"""The base model with its LoRA adapter, and the adapter's files."""

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rowen.crds.job.fine_tune import ALL_LINEAR
from rowen.crds.job.worker import TuningSpec
from rowen.runtime.failure import WorkerError, input_failure, reading
from rowen.runtime.tensor_header import add_metadata, read_header
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE, METADATA_KEY

_TYPES = {"BF16": torch.bfloat16, "F16": torch.float16}
_INEXACT = set(_TYPES.values())


def load_tokenizer(folder: Path) -> Any:
    """The model's tokenizer. Raises `WorkerError`."""
    try:
        return AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        # Whatever is wrong with a file: the libraries raise many kinds, a bare `Exception` among them.
        raise input_failure("ModelMissing", f"no tokenizer in {folder}: {_said(error)}", error) from error


def load_base(folder: Path, *, mapped: bool = False) -> Any:
    """The base model, all of it frozen. Raises `WorkerError`.

    It is in float32, or, if it is to stay mapped from its files where possible, in the type that these have.
    """
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    base = _load(folder, stored_type(folder) if mapped else torch.float32)
    saved = base.state_dict().keys()
    # What a model computes when it is made, it computes in that type: not the same as in float32.
    if any(made.dtype in _INEXACT for name, made in base.named_buffers() if name not in saved):
        base = _load(folder, torch.float32)
    base.requires_grad_(False)
    return base


def add_adapter(base: Any, spec: TuningSpec) -> PeftModel:
    """The base model with a fresh adapter whose first weights follow from the seed. Raises `WorkerError`."""
    modules = list(spec.lora.target_modules)
    config = LoraConfig(
        r=spec.lora.rank,
        lora_alpha=spec.lora.alpha,
        lora_dropout=spec.lora.dropout,
        use_rslora=spec.lora.rank_stabilized,
        target_modules=ALL_LINEAR if modules == [ALL_LINEAR] else modules,
        task_type="CAUSAL_LM",
    )
    torch.manual_seed(spec.seed)
    try:
        adapted = get_peft_model(base, config)
    except ValueError as error:
        raise WorkerError("SpecInvalid", f"lora.targetModules: {error}") from error
    if not isinstance(adapted, PeftModel):
        raise TypeError(f"expected a PeftModel, got {type(adapted).__name__}")
    return adapted


def adapter_files(model: PeftModel, base_model: str, digest: str) -> dict[str, bytes]:
    """The adapter of the job with that digest in PEFT's format: contents by name."""
    config = model.peft_config["default"].to_dict() | {"inference_mode": True, "base_model_name_or_path": base_model}
    weights = {name: tensor.contiguous() for name, tensor in get_peft_model_state_dict(model).items()}
    text = json.dumps(config, indent=2, sort_keys=True, default=_plain)
    return {
        ADAPTER_FILE: add_metadata(save(weights, metadata={"format": "pt"}), METADATA_KEY, digest),
        ADAPTER_CONFIG_FILE: text.encode(),
    }


def _load(folder: Path, dtype: torch.dtype) -> Any:
    # Its types leave out that it returns a pair with `output_loading_info`.
    automatic: Any = AutoModelForCausalLM
    try:
        base, loaded = automatic.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    except Exception as error:
        raise input_failure("ModelMissing", f"{folder} cannot be loaded: {_said(error)}", error) from error
    missing = sorted(loaded["missing_keys"])
    if missing:
        # transformers fills them with random values.
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise WorkerError("ModelMissing", f"{folder} lacks weights that its config.json asks for: {missing[0]}{more}")
    return base


def stored_type(folder: Path) -> torch.dtype:
    """The type of all tensors in the folder's safetensors files; float32 where they have several."""
    found = set()
    for path in folder.glob("*.safetensors"):
        with reading("ModelMissing", path), path.open("rb") as stream:
            try:
                header, _ = read_header(stream)
            except ValueError:
                continue
        found |= {tensor.get("dtype") for name, tensor in header.items() if name != "__metadata__"}
    return _TYPES.get(found.pop(), torch.float32) if len(found) == 1 else torch.float32


def _said(error: Exception) -> str:
    # Many of the messages, as a missing key's, say little without the kind.
    return f"{type(error).__name__}: {error}"


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, set) else str(value)
