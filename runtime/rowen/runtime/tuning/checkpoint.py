"""The state of a fine-tuning job on disk: one safetensors file, replaced atomically."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from rowen.runtime.files import write_atomically
from rowen.runtime.tuning.output import CHECKPOINT_FILE, METADATA_KEY

log = structlog.get_logger()

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass
class Training:
    """What a checkpoint holds: everything that later steps depend on."""

    adapter: dict[str, torch.nn.Parameter]
    """Trainable weights by name."""
    optimizer: torch.optim.AdamW
    step: int
    """Steps done; with the seed it gives the position in the data."""
    losses: list[float]
    """Training loss of each step done."""


def store(folder: Path, digest: str, training: Training) -> None:
    """Replaces the checkpoint. Raises `OSError`."""
    tensors = {f"adapter.{name}": weight.detach() for name, weight in training.adapter.items()}
    for name, weight in training.adapter.items():
        for moment, value in training.optimizer.state.get(weight, {}).items():
            tensors[f"optimizer.{moment}.{name}"] = value
    tensors["random.torch"] = torch.get_rng_state()
    state = {
        "digest": digest,
        "step": training.step,
        "losses": training.losses,
        "random": random.getstate(),
    }
    data = save(tensors, metadata={METADATA_KEY: json.dumps(state)})
    write_atomically(folder / CHECKPOINT_FILE, data)


def restore(folder: Path, digest: str, training: Training) -> bool:
    """Brings the training back to the checkpoint. False when there is none for this job and data."""
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return False
    try:
        with safe_open(path, framework="pt") as stream:
            state = json.loads((stream.metadata() or {}).get(METADATA_KEY, "{}"))
            if state.get("digest") != digest:
                log.warning("the checkpoint is of another job or other data: starting anew", path=str(path))
                return False
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, ValueError) as error:
        log.warning("the checkpoint cannot be read: starting anew", path=str(path), error=str(error))
        return False
    _apply(state, tensors, training)
    return True


def remove(folder: Path) -> None:
    """Removes the checkpoint."""
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)


def _apply(state: dict[str, Any], tensors: dict[str, torch.Tensor], training: Training) -> None:
    with torch.no_grad():
        for name, weight in training.adapter.items():
            weight.copy_(tensors[f"adapter.{name}"])
            moments = {moment: tensors.get(f"optimizer.{moment}.{name}") for moment in _MOMENTS}
            if None not in moments.values():
                training.optimizer.state[weight] = moments
    torch.set_rng_state(tensors["random.torch"])
    version, internal, gauss = state["random"]
    random.setstate((version, tuple(internal), gauss))
    training.step = int(state["step"])
    training.losses = list(state["losses"])
