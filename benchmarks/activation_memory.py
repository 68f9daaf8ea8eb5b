"""Bytes of activations that LoRA training keeps for one sequence, by how it is done (FlexLLM, section 8.4 and Fig. 13).

Nothing is computed: shapes alone go through transformers' model, PEFT's adapters, torch's autograd and the traced graph
of a layer, for models up to the size of the paper's largest.

    figures          the learner's own, at least: layers' inputs, keys and values, and the work on one window of tokens
    conventional     everything that the way forward makes, as if all weights were trained
    autograd         what torch's autograd saves of PEFT's model, whose frozen weights need no gradient
    checkpointing    the same with a checkpoint before each layer: their inputs, and one layer's activations
    pruned           what FlexLLM's Algorithm 1 memorizes before it makes any again
    rematerialized   what it memorizes with those made again that cost little

`reduction` is the learner's against autograd, the least over all models and adapters.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from reporting.bars import Bars
from reporting.report import Figures, print_report, report
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from transformers import AutoModelForCausalLM, LlamaConfig

from rowen.runtime.coserve.pruning.pruning import activations, prune, total_bytes
from rowen.runtime.coserve.pruning.trace import Traced, trace
from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.training.architecture import Architecture, architecture_of
from rowen.runtime.coserve.training.memory import token_bytes, workspace_bytes

TOKENS = 1024
RANK = 16
THRESHOLD = 16.0
"""Operations per byte: what is done number by number is made again, and products with a rank; no large ones are."""
MODELS: dict[str, dict[str, int]] = {
    "small": {
        "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16,
        "num_key_value_heads": 4, "vocab_size": 32_000,
    },
    "llama_8b": {
        "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128_256,
    },
    "llama_70b": {
        "hidden_size": 8192, "intermediate_size": 28_672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "vocab_size": 128_256,
    },
}  # fmt: skip
ADAPTERS = {"all": tuple(Target), "query_value": (Target.QUERY, Target.VALUE)}
ARMS = ("conventional", "autograd", "checkpointing", "pruned", "rematerialized", "windows")
BARS: Bars = {"reduction": (0.85, "at least")}
_MIB = 2**20


def measured(sizes: dict[str, int], targets: Sequence[str], tokens: int = TOKENS) -> dict[str, int]:
    """Bytes by arm, in bfloat16 with adapters in float32."""
    config = LlamaConfig(**sizes, max_position_embeddings=tokens)
    layers = config.num_hidden_layers
    with FakeTensorMode():
        one, two = (_saved_bytes(config, targets, count, tokens) for count in (1, 2))
        traced = _traced(config, targets, tokens)
    per_layer, rest = two - one, 2 * one - two
    wanted = [name for parameter, name in traced.gradients.items() if not parameter or "lora_" in parameter]
    there = traced.weights | {traced.inputs}
    inputs = tokens * config.hidden_size * 2
    needed = activations(traced.joint, wanted)
    kept = prune(traced.joint, wanted, THRESHOLD, there)
    every = [operator.name for operator in traced.joint.forward]
    architecture = architecture_of(config)
    return {
        "conventional": layers * total_bytes(traced.joint, every) + rest,
        "autograd": layers * per_layer + rest,
        "checkpointing": layers * inputs + per_layer + rest,
        "pruned": layers * (inputs + total_bytes(traced.joint, needed)) + rest,
        "rematerialized": layers * (inputs + total_bytes(traced.joint, kept.memorized)) + rest,
        "windows": _own_bytes(architecture, tokens),
    }


def _own_bytes(architecture: Architecture, tokens: int) -> int:
    held = tokens * token_bytes(architecture, torch.bfloat16, architecture.layers)
    return held + workspace_bytes(architecture, tokens)


def _adapted(config: LlamaConfig, targets: Sequence[str]) -> Any:
    """Called in a mode of fake tensors, which PEFT cannot move: it gets a model without memory, filled in after."""
    with unset_fake_temporarily(), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        lora = LoraConfig(r=RANK, target_modules=[str(target) for target in targets])
        adapted = get_peft_model(model, lora)
    for module in adapted.modules():
        for name, weight in module.named_parameters(recurse=False):
            filled = torch.empty(weight.shape, dtype=weight.dtype)
            module.register_parameter(name, torch.nn.Parameter(filled, requires_grad=weight.requires_grad))
        for name, buffer in module.named_buffers(recurse=False):
            module.register_buffer(name, torch.empty(buffer.shape, dtype=buffer.dtype), persistent=False)
    return adapted


def _saved_bytes(config: LlamaConfig, targets: Sequence[str], layers: int, tokens: int) -> int:
    """That autograd keeps between the ways forward and back of a model with so many layers."""
    config = LlamaConfig(**(config.to_dict() | {"num_hidden_layers": layers}))
    model = _adapted(config, targets)
    own = {id(weight.untyped_storage()) for weight in [*model.parameters(), *model.buffers()]}
    row = torch.zeros(1, tokens, dtype=torch.int64)
    with _saved() as storages:
        model(input_ids=row, labels=row, use_cache=False)
    return sum(storage.nbytes() for number, storage in storages.items() if number not in own)


@contextmanager
def _saved() -> Iterator[dict[int, torch.UntypedStorage]]:
    """Storages of all tensors that autograd saves meanwhile."""
    storages: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[id(storage)] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield storages


def _traced(config: LlamaConfig, targets: Sequence[str], tokens: int) -> Traced:
    model = _adapted(LlamaConfig(**(config.to_dict() | {"num_hidden_layers": 1})), targets).base_model.model.model
    inputs = torch.empty(1, tokens, config.hidden_size, dtype=torch.bfloat16)
    angles = model.rotary_emb(inputs, torch.arange(tokens)[None])
    return trace(model.layers[0], inputs, angles)


def run(seed: int, models: Sequence[str]) -> dict[str, Any]:
    """The whole benchmark."""
    found = {
        (model, adapter): measured(MODELS[model], targets) for model in models for adapter, targets in ADAPTERS.items()
    }
    arms: dict[str, Figures] = {
        arm: {f"{model}_{adapter}_mib": (found[model, adapter][arm] / _MIB, "MiB") for model, adapter in found}
        for arm in ARMS
    }
    reductions = {case: 1 - by_arm["windows"] / by_arm["autograd"] for case, by_arm in found.items()}
    figures: Figures = {
        "reduction": (min(reductions.values()), "fraction"),
        **{f"{model}_{adapter}_reduction": (value, "fraction") for (model, adapter), value in reductions.items()},
        **arms.pop("windows"),
    }
    obj = report("activation_memory", seed, figures, arms, ("rowen", "torch", "transformers", "peft"), BARS)
    obj["tokens"] = TOKENS
    return obj


def draw(obj: dict[str, Any], path: Path) -> None:
    """Writes the picture of the adapters of all layers, each model's bytes as a part of autograd's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name for name in MODELS if f"{name}_all_mib" in obj["figures"]]
    rows = {**obj["baselines"], "windows": obj["figures"]}
    figure, axis = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    width = 0.8 / len(ARMS)
    for place, arm in enumerate(ARMS):
        parts = [rows[arm][f"{name}_all_mib"]["value"] / rows["autograd"][f"{name}_all_mib"]["value"] for name in names]
        bars = axis.bar([number + place * width for number in range(len(names))], parts, width, label=arm)
        axis.bar_label(bars, fmt="%.2f", fontsize=7)
    axis.set_xticks([number + 0.4 - width / 2 for number in range(len(names))], names)
    axis.set_ylabel("activations, part of autograd's")
    axis.set_title(f"LoRA on all linear layers, one sequence of {obj['tokens']} tokens", fontsize=10)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="the smallest model only")
    parser.add_argument("--seed", type=int, default=0, help="nothing is drawn: it is only noted")
    parser.add_argument("--result", type=Path, help="what an earlier run printed, to draw without another one")
    parser.add_argument("--picture", type=Path, help="where to draw")
    arguments = parser.parse_args()
    if arguments.result is None:
        obj = run(arguments.seed, ["small"] if arguments.quick else list(MODELS))
        print_report(obj, arguments.json)
    else:
        obj = json.loads(arguments.result.read_text(encoding="utf-8"))
    if arguments.picture is not None:
        draw(obj, arguments.picture)


if __name__ == "__main__":
    main()
