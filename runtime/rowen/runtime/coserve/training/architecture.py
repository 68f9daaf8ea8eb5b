"""What a model is made of, as far as training needs it, and which models can be trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from rowen.runtime.coserve.task import Target

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
STATIC_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding that do not depend on how long a sequence is."""


class ArchitectureUnsupported(Exception):  # noqa: N818
    """The model cannot be trained on here; the message is for people, and says what of it is not supported."""


@dataclass(frozen=True)
class Architecture:
    """A decoder of equal layers: attention with grouped queries, and a gated feed-forward network."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_heads: int
    """Heads of keys and of values."""
    head_size: int
    vocabulary: int
    longest_tokens: int
    """Of a sequence."""
    epsilon: float
    """Of the norms."""
    tied: bool
    """The last linear layer has the weights of the embedding."""
    norms_heads: bool
    """Each head of queries and of keys is normed (Qwen3)."""
    frequencies: torch.Tensor
    """[head_size / 2], of the rotary embedding; radians per token."""
    rotation_scale: float
    """Of its sines and cosines."""

    def widths(self, target: Target) -> tuple[int, int]:
        """Inputs and outputs of a linear layer."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        return {
            Target.QUERY: (self.hidden, queries),
            Target.KEY: (self.hidden, keys),
            Target.VALUE: (self.hidden, keys),
            Target.OUTPUT: (queries, self.hidden),
            Target.GATE: (self.hidden, self.intermediate),
            Target.UP: (self.hidden, self.intermediate),
            Target.DOWN: (self.intermediate, self.hidden),
        }[target]


def read_architecture(folder: Path) -> Architecture:
    """From `config.json`. Raises `ArchitectureUnsupported`."""
    try:
        return architecture_of(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    except ArchitectureUnsupported:
        raise
    except Exception as error:
        # A configuration may be wrong in ways that transformers does not foresee.
        raise ArchitectureUnsupported(f"the model's configuration cannot be read: {error}") from error


def architecture_of(config: Any) -> Architecture:
    """From a configuration of transformers'. Raises `ArchitectureUnsupported`."""
    obstacle = _obstacle(config)
    if obstacle is not None:
        raise ArchitectureUnsupported(obstacle)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rotation = LlamaRotaryEmbedding(config)
    window = _attention_window(config)
    return Architecture(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads or config.num_attention_heads,
        head_size=head_size,
        vocabulary=config.vocab_size,
        # Within one window attention is that to all tokens.
        longest_tokens=min(config.max_position_embeddings, window or config.max_position_embeddings),
        epsilon=config.rms_norm_eps,
        tied=bool(config.tie_word_embeddings),
        norms_heads=config.model_type == "qwen3",
        frequencies=rotation.inv_freq.detach().clone(),
        rotation_scale=float(rotation.attention_scaling),
    )


def _obstacle(config: Any) -> str | None:
    """Why the model cannot be trained on; None: nothing is in the way."""
    kind = str(config.model_type)
    if kind not in MODEL_TYPES:
        return f"models of type {kind} are not supported, only {', '.join(MODEL_TYPES)}"
    if getattr(config, "quantization_config", None):
        return "quantised models are not supported"
    if config.hidden_act != "silu":
        return f"the activation {config.hidden_act} is not supported, only silu"
    if getattr(config, "attention_dropout", 0.0):
        return "dropout in attention is not supported"
    rotation: Mapping[str, Any] = config.rope_parameters
    if rotation["rope_type"] not in STATIC_ROTATIONS:
        return f"rotary embeddings of type {rotation['rope_type']} are not supported"
    if rotation.get("partial_rotary_factor", 1.0) != 1.0:
        return "rotary embeddings of a part of each head are not supported"
    return None


def _attention_window(config: Any) -> int | None:
    """Tokens that attention reaches back; None: all."""
    if config.model_type.startswith("qwen") and not config.use_sliding_window:
        return None
    return getattr(config, "sliding_window", None)
