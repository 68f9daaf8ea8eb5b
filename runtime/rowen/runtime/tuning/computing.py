"""Where the model is computed that a job trains."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from peft import PeftModel

from rowen.crds.base import quantity_text
from rowen.crds.job.worker import TuningSpec
from rowen.runtime.failure import WorkerError
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.tuning import adapter
from rowen.runtime.tuning.training.trainer import Trainer
from rowen.runtime.tuning.window.layers import layers_of, movable_tensors
from rowen.runtime.tuning.window.places import handle_counts
from rowen.runtime.tuning.window.saved_inputs import most_handles
from rowen.runtime.tuning.window.window import Window


class Computing(Protocol):
    """A place where it is computed."""

    @property
    def recomputes(self) -> bool:
        """Activations are computed again on the way back without the trainer's doing."""

    def model(self, batch_tokens: int) -> AbstractContextManager[PeftModel]:
        """The model with a fresh adapter, for batches of so many tokens at most. Raises `WorkerError`."""

    def trainer(self, model: PeftModel, *arguments: Any, **named: Any) -> Trainer:
        """A trainer of that model; the arguments are those of `Trainer`. Raises `WorkerError`."""


class Here(Computing):
    """In this process."""

    def __init__(self, spec: TuningSpec, model: Path, part: PoolPart | None) -> None:
        """With a part of the pool the layers' weights are there, as many at a time as it grants; else in memory."""
        self._spec = spec
        self._model = model
        self._part = part

    @property
    def recomputes(self) -> bool:
        """With a part of the pool."""
        return self._part is not None

    @contextmanager
    def model(self, batch_tokens: int) -> Iterator[PeftModel]:
        """Loads it. Raises `WorkerError`."""
        base = adapter.load_base(self._model, mapped=self._part is not None)
        with self._placed(base, batch_tokens):
            yield adapter.add_adapter(base, self._spec)

    def trainer(self, model: PeftModel, *arguments: Any, **named: Any) -> Trainer:
        """TRL's."""
        return Trainer(model, *arguments, **named)

    @contextmanager
    def _placed(self, base: Any, batch_tokens: int) -> Iterator[None]:
        """Keeps the base model's layers in the part of the pool, if there is one. Raises `WorkerError`."""
        if self._part is None:
            yield
            return
        try:
            window = _window(base, self._part, batch_tokens)
        except ValueError as error:
            message = f"with a memoryLimit the layers lie in the device's pool, but {error}: leave memoryLimit out"
            raise WorkerError("ModelUnsuitable", message) from error
        with window:
            if window.least_handles > self._part.handles:
                raise _too_little(self._part, window.least_handles)
            base.float()
            yield


def _window(base: Any, part: PoolPart, batch_tokens: int) -> Window:
    """The window over all layers. Raises `ValueError`.

    Inputs get what the layers leave of the part: no job is refused because of them, or wants more than it may have.
    """
    layers, handle_bytes = layers_of(base), part.arena.handle_bytes
    weights = sum(handle_counts(movable_tensors(base, layers), torch.float32, handle_bytes))
    token_bytes = getattr(base.config.get_text_config(), "hidden_size", 0) * torch.float32.itemsize
    inputs = most_handles(len(layers), batch_tokens * token_bytes, handle_bytes)
    return Window(
        base,
        layers,
        part.arena,
        dtype=torch.float32,
        ledger=part.ledger,
        input_handles=max(0, min(inputs, part.handles - weights)),
    )


def _too_little(part: PoolPart, needed: int) -> WorkerError:
    message = f"a layer takes {quantity_text(needed * part.arena.handle_bytes)}, and {part.in_words}"
    return WorkerError("MemoryTooSmall", f"{message}: {part.remedy}, or leave memoryLimit out")
