"""The weights of a served model, mapped from its files: clean memory, which the kernel may take back at any time."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.architecture import Architecture, ArchitectureUnsupported

_ATTENTION = (Target.QUERY, Target.KEY, Target.VALUE, Target.OUTPUT)
_TYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class LinearWeights:
    """y = weight x + bias."""

    weight: torch.Tensor
    """[outputs, inputs]"""
    bias: torch.Tensor | None
    """[outputs]"""


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer."""

    linears: dict[Target, LinearWeights]
    attention_norm: torch.Tensor
    """[hidden]"""
    mlp_norm: torch.Tensor
    query_norm: torch.Tensor | None
    """[head_size]"""
    key_norm: torch.Tensor | None


@dataclass(frozen=True)
class Weights:
    """All of them. Matrices are of the type that they are stored in, all else of that which is computed in."""

    dtype: torch.dtype
    """Which is computed in."""
    embedding: torch.Tensor
    """[vocabulary, hidden]"""
    layers: list[LayerWeights]
    norm: torch.Tensor
    """[hidden], before the head."""
    head: torch.Tensor
    """[vocabulary, hidden]"""


def map_weights(folder: Path, architecture: Architecture, dtype: torch.dtype | None = None) -> Weights:
    """Maps the safetensors files of the folder; reads none of the matrices. Raises `ArchitectureUnsupported`.

    `dtype`: which is computed in; None: that of the files.
    """
    tensors = _Tensors(folder, dtype)
    embedding = tensors.need("model.embed_tokens.weight", (architecture.vocabulary, architecture.hidden))
    head = embedding
    if not architecture.tied:
        head = tensors.need("lm_head.weight", (architecture.vocabulary, architecture.hidden))
    layers = [_layer(tensors, architecture, number) for number in range(architecture.layers)]
    return Weights(tensors.dtype, embedding, layers, tensors.need("model.norm.weight", (architecture.hidden,)), head)


def _layer(tensors: "_Tensors", architecture: Architecture, number: int) -> LayerWeights:
    prefix = f"model.layers.{number}"
    linears = {}
    for target in Target:
        inputs, outputs = architecture.widths(target)
        name = f"{prefix}.{'self_attn' if target in _ATTENTION else 'mlp'}.{target}"
        weight = tensors.need(f"{name}.weight", (outputs, inputs))
        linears[target] = LinearWeights(weight, tensors.find(f"{name}.bias", (outputs,)))
    heads = [f"{prefix}.self_attn.{name}.weight" for name in ("q_norm", "k_norm")] if architecture.norms_heads else []
    norms = [tensors.need(name, (architecture.head_size,)) for name in heads]
    return LayerWeights(
        linears,
        tensors.need(f"{prefix}.input_layernorm.weight", (architecture.hidden,)),
        tensors.need(f"{prefix}.post_attention_layernorm.weight", (architecture.hidden,)),
        *(norms or (None, None)),
    )


class _Tensors:
    """All tensors of a model's files, by name."""

    def __init__(self, folder: Path, dtype: torch.dtype | None) -> None:
        self._tensors: dict[str, torch.Tensor] = {}
        try:
            for path in weight_files(folder):
                # Torch maps the file: what is read of it is a view.
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118
                        self._tensors[name] = file.get_tensor(name)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise ArchitectureUnsupported(f"the model's weights cannot be read: {error}") from error
        if not self._tensors:
            raise ArchitectureUnsupported("the model has no safetensors files")
        self._dtype = self._stored_type()
        if self._dtype not in _TYPES:
            raise ArchitectureUnsupported(f"weights of type {self._dtype} are not supported, only float32 and bfloat16")
        self.dtype = dtype or self._dtype

    def _stored_type(self) -> torch.dtype:
        norm = self._tensors.get("model.norm.weight")
        if norm is None:
            raise ArchitectureUnsupported("the model's files have no model.norm.weight")
        return norm.dtype

    def find(self, name: str, shape: tuple[int, ...] | None) -> torch.Tensor | None:
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        if shape is not None and tuple(tensor.shape) != shape:
            raise ArchitectureUnsupported(f"{name} has the shape {list(tensor.shape)} instead of {list(shape)}")
        if tensor.dtype != self._dtype:
            raise ArchitectureUnsupported(f"{name} is of type {tensor.dtype}, other weights of type {self._dtype}")
        # A matrix is turned over when it is computed with: all of them would take as much memory again.
        return tensor if tensor.dim() > 1 else tensor.to(self.dtype)

    def need(self, name: str, shape: tuple[int, ...] | None) -> torch.Tensor:
        tensor = self.find(name, shape)
        if tensor is None:
            raise ArchitectureUnsupported(f"the model's files have no {name}")
        return tensor


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model's folder. Raises `OSError`, `ValueError`, `KeyError`."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return sorted(folder / name for name in names)
    return sorted(folder.glob("*.safetensors"))
