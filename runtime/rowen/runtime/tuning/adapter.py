"""The base model with its LoRA adapter, and the adapter's files."""

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rowen.crds.worker import TuningSpec
from rowen.runtime.failure import WorkerError, input_failure
from rowen.runtime.files import write_atomically
from rowen.runtime.tuning.header import add_metadata
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE, METADATA_KEY


def load_tokenizer(folder: Path) -> Any:
    """The model's tokenizer. Raises `WorkerError`."""
    try:
        return AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        # Whatever is wrong with a file: the libraries raise many kinds, a bare `Exception` among them.
        raise input_failure("ModelMissing", f"no tokenizer in {folder}: {_said(error)}", error) from error


def load_adapted(folder: Path, spec: TuningSpec) -> PeftModel:
    """The base model in float32 with a fresh adapter whose first weights follow from the seed. Raises `WorkerError`."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # Its types leave out that it returns a pair with `output_loading_info`.
    automatic: Any = AutoModelForCausalLM
    try:
        base, loaded = automatic.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    except Exception as error:
        raise input_failure("ModelMissing", f"{folder} cannot be loaded: {_said(error)}", error) from error
    missing = sorted(loaded["missing_keys"])
    if missing:
        # transformers fills them with random values.
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise WorkerError("ModelMissing", f"{folder} lacks weights that its config.json asks for: {missing[0]}{more}")
    config = LoraConfig(
        r=spec.lora.rank,
        lora_alpha=spec.lora.alpha,
        target_modules=list(spec.lora.target_modules),
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


def write_adapter(folder: Path, model: PeftModel, base_model: str, digest: str) -> None:
    """Writes the adapter of the job with that digest in PEFT's format. Raises `OSError`."""
    config = model.peft_config["default"].to_dict() | {"inference_mode": True, "base_model_name_or_path": base_model}
    weights = {name: tensor.contiguous() for name, tensor in get_peft_model_state_dict(model).items()}
    data = add_metadata(save(weights, metadata={"format": "pt"}), METADATA_KEY, digest)
    write_atomically(folder / ADAPTER_FILE, data)
    text = json.dumps(config, indent=2, sort_keys=True, default=_plain)
    write_atomically(folder / ADAPTER_CONFIG_FILE, text.encode())


def _said(error: Exception) -> str:
    # Many of the messages, as a missing key's, say little without the kind.
    return f"{type(error).__name__}: {error}"


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, set) else str(value)
