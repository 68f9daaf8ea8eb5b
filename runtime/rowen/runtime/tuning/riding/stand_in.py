"""The adapter on a stand-in for the base model, which has its modules and none of its memory."""

import re
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import AutoConfig, AutoModelForCausalLM

from rowen.crds.job.worker import RIDE_REFUSED, ExitCode
from rowen.runtime.coserve.task import Pair, Place, Target
from rowen.runtime.coserve.wire.layout import AdapterLayout
from rowen.runtime.failure import WorkerError, input_failure

_NAME = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)")


def load_stand_in(folder: Path) -> Any:
    """A frozen model of that kind whose weights are all zero and take no memory. Raises `WorkerError`."""
    automatic: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(folder)
        with torch.device("meta"):
            model = automatic.from_config(config, dtype=torch.float32)
    except Exception as error:
        # Whatever is wrong with a file: the library raises many kinds.
        message = f"{folder} cannot be loaded: {type(error).__name__}: {error}"
        raise input_failure("ModelMissing", message, error) from error
    for module in model.modules():
        # Not `meta`: PEFT puts an adapter where the weights are.
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(_nothing(weight), requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, _nothing(buffer))
    return model


def _nothing(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


class RidingAdapter:
    """The adapter's weights by their places."""

    def __init__(self, model: PeftModel) -> None:
        """Raises `WorkerError` where something is adapted that an engine does not compute for riders."""
        layers = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
        found: dict[Place, Any] = {_place(name): layer for name, layer in layers.items()}
        ranks = {layer.r["default"] for layer in found.values()}
        scalings = {layer.scaling["default"] for layer in found.values()}
        sizes = {(target, layer.in_features, layer.out_features) for (_, target), layer in found.items()}
        if len(ranks) > 1 or len(scalings) > 1 or len(sizes) > len({target for target, *_ in sizes}):
            raise _refused("its layers are not alike")
        [rank], [self.scaling] = ranks, scalings
        places = tuple(sorted(found, key=lambda place: (place[0], list(Target).index(place[1]))))
        self.layout = AdapterLayout(rank, places, {target: (inputs, outputs) for target, inputs, outputs in sizes})
        self.pairs = {
            place: Pair(found[place].lora_A["default"].weight, found[place].lora_B["default"].weight)
            for place in places
        }

    @property
    def weights(self) -> list[torch.Tensor]:
        """All of them, as they lie in memory."""
        return [matrix for pair in self.pairs.values() for matrix in (pair.a, pair.b)]

    def copied(self) -> torch.Tensor:
        """All weights as they are now, one after the other."""
        return torch.cat([weight.detach().flatten() for weight in self.weights])


def _place(name: str) -> Place:
    match = _NAME.fullmatch(name)
    if match is None or match[2] not in list(Target):
        raise _refused(f"{name.removeprefix('base_model.model.')} is adapted")
    return int(match[1]), Target(match[2])


def _refused(why: str) -> WorkerError:
    return WorkerError(RIDE_REFUSED, f"no engine computes it for riders: {why}", ExitCode.RETRY)
