"""Small models with random weights, and what transformers and PEFT make of a task."""

from collections.abc import Sequence as Row
from functools import cache
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, set_seed

from rowen.runtime.coserve.task import IGNORED, Adapter, Pair, Place, Result, Sequence, Target, Task

_SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64}
_LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}
CONFIGS = {
    "llama": lambda: LlamaConfig(**_SIZES),
    "llama_scaled_tied": lambda: LlamaConfig(**_SIZES, rope_parameters=_LLAMA3, tie_word_embeddings=True),
    "llama_biased": lambda: LlamaConfig(**_SIZES, attention_bias=True, mlp_bias=True),
    "mistral": lambda: MistralConfig(**_SIZES, sliding_window=128),
    "qwen2": lambda: Qwen2Config(**{k: v for k, v in _SIZES.items() if k != "head_dim"}),
    "qwen3": lambda: Qwen3Config(**_SIZES, tie_word_embeddings=True),
    "qwen3_yarn_biased": lambda: Qwen3Config(**_SIZES, rope_parameters=_YARN, attention_bias=True),
    "llama_linear": lambda: LlamaConfig(**_SIZES, rope_parameters=_LINEAR),
}


def make_model(folder: Path, kind: str, dtype: torch.dtype = torch.float32) -> Path:
    set_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind](), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                # Norms of ones and biases of zeros would hide what is done with them.
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(dtype).save_pretrained(folder)
    return folder


@cache
def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="eager")


def draw_adapter(folder: Path, targets: Row[str], rank: int, layers: Row[int] | None = None, seed: int = 1) -> Any:
    """PEFT's model with an adapter that does something, scaled by 2."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="eager")
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(targets), layers_to_transform=layers)
    set_seed(seed)
    adapted = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return adapted


def pairs(adapted: Any, *, gradients: bool = False) -> dict[Place, Pair]:
    found: dict[Place, dict[str, torch.Tensor]] = {}
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            words = name.split(".")
            layer, target = int(words[words.index("layers") + 1]), Target(words[words.index("layers") + 3])
            value = parameter.grad if gradients else parameter.detach().clone()
            found.setdefault((layer, target), {})[words[words.index("layers") + 4]] = value
    return {place: Pair(both["lora_A"], both["lora_B"]) for place, both in found.items()}


def draw_sequences(lengths: Row[int], seed: int = 2, vocabulary: int = 96) -> tuple[Sequence, ...]:
    source = torch.Generator().manual_seed(seed)
    found = []
    for length in lengths:
        tokens = torch.randint(0, vocabulary, (length + 1,), generator=source)
        labels = tokens[1:].clone()
        labels[: length // 3] = IGNORED
        found.append(Sequence(tokens[:-1], labels))
    return tuple(found)


def by_autograd(adapted: Any, task: Task) -> Result:
    """The same task by PEFT and autograd."""
    adapted.zero_grad()
    loss_sum, learned, correct = 0.0, 0, 0
    for sequence in task.sequences:
        logits = adapted(input_ids=sequence.tokens[None], use_cache=False).logits[0].float()
        mask = sequence.labels != IGNORED
        if not mask.any():
            continue
        loss = torch.nn.functional.cross_entropy(logits[mask], sequence.labels[mask], reduction="sum")
        if task.gradients:
            (loss * task.loss_scale).backward()
        loss_sum += float(loss.detach())
        learned += int(mask.sum())
        correct += int((logits[mask].argmax(-1) == sequence.labels[mask]).sum())
    gradients = pairs(adapted, gradients=True) if task.gradients else {}
    return Result(task.number, loss_sum, learned, correct, gradients)


def task_of(adapted: Any, sequences: tuple[Sequence, ...], number: int = 1, *, gradients: bool = True) -> Task:
    return Task(number, Adapter(2.0, pairs(adapted)), sequences, 1 / 7, gradients)
