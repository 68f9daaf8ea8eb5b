"""The base model with its LoRA adapter, and the adapter's files."""

import json
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer

from rowen.crds.worker import ExitCode, ModelLocation, TuningSpec
from rowen.runtime.files import write_atomically
from rowen.runtime.worker import WorkerFailure


def load_tokenizer(model: ModelLocation) -> Any:
    """The model's tokenizer. Raises `WorkerFailure`."""
    try:
        return AutoTokenizer.from_pretrained(model.name_or_path, revision=model.revision or "main")
    except (OSError, ValueError) as error:
        raise model_failure(model, error) from error


def load_adapted(spec: TuningSpec) -> PeftModel:
    """The base model in float32 with a fresh adapter whose first weights follow from the seed."""
    try:
        base = AutoModelForCausalLM.from_pretrained(
            spec.base_model.name_or_path, revision=spec.base_model.revision or "main", dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        raise model_failure(spec.base_model, error) from error
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
        raise WorkerFailure("SpecInvalid", f"lora.targetModules: {error}") from error
    if not isinstance(adapted, PeftModel):
        raise TypeError(f"expected a PeftModel, got {type(adapted).__name__}")
    return adapted


def write_adapter(folder: Path, model: PeftModel, base_model: str) -> None:
    """Writes the adapter in PEFT's format. Raises `OSError`."""
    config = model.peft_config["default"].to_dict() | {"inference_mode": True, "base_model_name_or_path": base_model}
    weights = {name: tensor.contiguous() for name, tensor in get_peft_model_state_dict(model).items()}
    write_atomically(folder / "adapter_model.safetensors", save(weights, metadata={"format": "pt"}))
    text = json.dumps(config, indent=2, sort_keys=True, default=_plain)
    write_atomically(folder / "adapter_config.json", text.encode())


def model_failure(model: ModelLocation, error: Exception) -> WorkerFailure:
    """What it means that the model could not be loaded."""
    name = model.name_or_path + (f" at {model.revision}" if model.revision else "")
    local = Path(model.name_or_path).is_absolute()
    absent = isinstance(error.__cause__, RepositoryNotFoundError | RevisionNotFoundError)
    code = ExitCode.USER_ERROR if local or absent else ExitCode.RETRY
    return WorkerFailure("ModelMissing", f"{name} cannot be loaded: {error}", code)


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, set) else str(value)
