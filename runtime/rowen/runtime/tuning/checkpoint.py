"""The state of a fine-tuning job as one safetensors file: no code is read from it."""

import json
import random
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy
import structlog
import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load, save

from rowen.runtime.tensor_header import header_of
from rowen.runtime.tuning.output import METADATA_KEY

log = structlog.get_logger()


@dataclass
class Learned:
    """What has been learned so far, for people and for the result."""

    step: int = 0
    """Steps done; with the seed it gives the position in the data."""
    losses: list[float] = field(default_factory=list)
    """Training loss of each step done."""
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    """Step and held-out loss of each evaluation."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that later steps depend on. It can be restored once: its tensors become the training's."""

    learned: Learned
    best: dict[str, torch.Tensor]
    """Trainable weights of the evaluation with the least loss; none before the first one."""
    adapter: dict[str, torch.Tensor]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any]
    random: dict[str, Any]

    @classmethod
    def of(cls, model: Any, optimizer: Any, scheduler: Any, learned: Learned, best: dict[str, torch.Tensor]) -> Self:
        """The present state."""
        return cls(
            learned=learned,
            best=best,
            adapter={name: weight.detach() for name, weight in trainable(model).items()},
            optimizer=optimizer.state_dict(),
            scheduler=scheduler.state_dict(),
            random={
                "torch": torch.get_rng_state(),
                "numpy": numpy.random.get_state(legacy=False),
                "python": random.getstate(),
            },
        )

    def restore(self, model: Any, optimizer: Any, scheduler: Any) -> None:
        """Brings a training of the same job back to this state."""
        load_weights(model, self.adapter)
        optimizer.load_state_dict(self.optimizer)
        scheduler.load_state_dict(self.scheduler)
        torch.set_rng_state(self.random["torch"])
        state = self.random["numpy"]
        key = numpy.array(state["state"]["key"], dtype=numpy.uint32)
        numpy.random.set_state({**state, "state": {**state["state"], "key": key}})
        version, internal, gauss = self.random["python"]
        random.setstate((version, tuple(internal), gauss))

    def to_bytes(self, digest: str) -> bytes:
        """As a file of the job with that digest."""
        tensors: dict[str, torch.Tensor] = {}
        parts = {name: _taken_apart(getattr(self, name), name, tensors) for name in _PARTS}
        state = {"digest": digest, "learned": asdict(self.learned), **parts}
        return save(tensors, metadata={METADATA_KEY: json.dumps(state)})

    @classmethod
    def from_bytes(cls, data: bytes, digest: str) -> "Checkpoint | None":
        """The checkpoint in the file; None, said in the log, when it is another job's or damaged."""
        try:
            state = json.loads(header_of(data).get("__metadata__", {}).get(METADATA_KEY, "{}"))
            if state.get("digest") != digest:
                log.warning("the checkpoint is of another job or other data: starting anew")
                return None
            tensors = load(data)
            parts = {name: _put_together(state[name], tensors) for name in _PARTS}
            return cls(learned=_LEARNED.validate_python(state["learned"]), **parts)
        except (AttributeError, KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
            log.warning("the checkpoint cannot be read: starting anew", error=f"{type(error).__name__}: {error}")
            return None


_PARTS = ("best", "adapter", "optimizer", "scheduler", "random")
_LEARNED = TypeAdapter(Learned)


def trainable(model: Any) -> dict[str, torch.nn.Parameter]:
    """The weights that are learned, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


@torch.no_grad()
def load_weights(model: Any, weights: dict[str, torch.Tensor]) -> None:
    """Replaces the weights that are learned."""
    for name, weight in trainable(model).items():
        weight.copy_(weights[name])


def _taken_apart(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """As JSON; tensors go into `tensors`. Keys keep their type, as an optimizer's numbers of its weights."""
    if isinstance(value, torch.Tensor):
        tensors[name] = value.contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[key, _taken_apart(inner, f"{name}.{key}", tensors)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        return [_taken_apart(inner, f"{name}.{number}", tensors) for number, inner in enumerate(value)]
    return value.tolist() if isinstance(value, numpy.ndarray) else value


def _put_together(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_together(inner, tensors) for inner in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    return {key: _put_together(inner, tensors) for key, inner in value["pairs"]}
