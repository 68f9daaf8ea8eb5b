"""One attempt at a fine-tuning job."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import torch
from peft import PeftModel
from transformers import TrainerCallback

from rowen.crds.base import quantity_text
from rowen.crds.job.worker import TuningSpec
from rowen.runtime.failure import WorkerError
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.tuning import adapter
from rowen.runtime.tuning.checkpoint import Checkpoint
from rowen.runtime.tuning.data import source
from rowen.runtime.tuning.data.dataset import Data, read_data
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.metrics import Metrics
from rowen.runtime.tuning.results.results import Results
from rowen.runtime.tuning.training.attempt import Attempt, resume_state
from rowen.runtime.tuning.training.settings import trainer_settings
from rowen.runtime.tuning.training.tracking import Events, weights_and_biases
from rowen.runtime.tuning.training.trainer import Trainer
from rowen.runtime.tuning.window.layers import layers_of, movable_tensors
from rowen.runtime.tuning.window.places import handle_counts
from rowen.runtime.tuning.window.saved_inputs import most_handles
from rowen.runtime.tuning.window.window import Window
from rowen.runtime.worker import Progress

log = structlog.get_logger()


class Tuner:
    """One attempt at a job."""

    def __init__(
        self,
        spec: TuningSpec,
        model: Path,
        dataset: Path,
        results: Results,
        progress: Progress,
        part: PoolPart | None = None,
    ) -> None:
        """`model` and `dataset` are local, wherever the spec has them from.

        With a part of the pool the layers' weights are there, as many at a time as it grants; else in memory.
        """
        self._spec = spec
        self._model = model
        self._progress = progress
        self._part = part
        self._dataset = dataset
        self._digest = job_digest(spec, model, dataset)
        self._results = results

    def run(self) -> Metrics:
        """Trains from the last checkpoint to the end and writes the adapter. Raises `WorkerError`, `OSError`."""
        done = self._results.finished(self._digest)
        if done is not None:
            log.info("the job was complete already")
            self._progress.report(done.steps, done.steps)
            return done
        tokenizer = adapter.load_tokenizer(self._model)
        data = read_data(self._spec, self._dataset, tokenizer)
        base = adapter.load_base(self._model, mapped=self._part is not None)
        with self._placed(base, self._spec.batch_size * max(data.lengths)):
            model = adapter.add_adapter(base, self._spec)
            metrics = self._learn(model, tokenizer, data)
            files = adapter.adapter_files(model, self._spec.base_model.name_or_path, self._digest)
        self._results.finish(files, metrics)
        return metrics

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

    def _learn(self, model: PeftModel, tokenizer: Any, data: Data) -> Metrics:
        spec, start = self._spec, self._start()
        step = start.learned.step if start else 0
        with tempfile.TemporaryDirectory(prefix="rowen-") as name, self._shown(Path(name)) as shown:
            scratch = Path(name)
            events = Events(scratch / "events")
            attempt = Attempt(
                start,
                self._progress,
                data.step_tokens,
                lambda state: self._results.commit(state.to_bytes(self._digest), self._digest, step, events.so_far()),
                keep_best=spec.evaluation is not None and spec.evaluation.keep_best,
            )
            steps = spec.epochs * data.order.steps_per_epoch
            settings = trainer_settings(spec, scratch, steps, recomputes=self._part is not None)
            # The attempt comes last: what a checkpoint restores is not to be changed by the others.
            callbacks = [events.callback(), *shown, attempt]
            trainer = Trainer(model, settings, data, tokenizer, callbacks, packed=spec.packing, first_step=step)
            done = resume_state(scratch, step, settings, data.order.steps_per_epoch) if step else None
            trainer.train(resume_from_checkpoint=str(done) if done else None)
        attempt.load_best(model)
        return self._metrics(trainer, model, data, attempt)

    def _start(self) -> Checkpoint | None:
        saved = self._results.checkpoint()
        return Checkpoint.from_bytes(saved, self._digest) if saved is not None else None

    def _shown(self, scratch: Path) -> AbstractContextManager[list[TrainerCallback]]:
        return weights_and_biases(self._spec.weights_and_biases, self._spec.job, self._digest, scratch)

    def _metrics(self, trainer: Trainer, model: PeftModel, data: Data, attempt: Attempt) -> Metrics:
        adapter_loss = base_loss = None
        if len(data.held_out):
            adapter_loss = trainer.held_out_loss()
            with model.disable_adapter():
                base_loss = trainer.held_out_loss()
        return Metrics(
            digest=self._digest,
            steps=attempt.learned.step,
            base_loss=base_loss,
            adapter_loss=adapter_loss,
            training_rows=data.training_rows,
            held_out_rows=len(data.held_out),
            cut_rows=data.cut_rows,
            dropped_rows=data.dropped_rows,
            training_losses=attempt.learned.losses,
            evaluations=attempt.learned.evaluations,
            best_step=attempt.best_step,
        )


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


def job_digest(spec: TuningSpec, model: Path, dataset: Path) -> str:
    """Identifies what the result depends on: the spec, the dataset's bytes and the base model's files.

    Raises `WorkerError`.
    """
    text = spec.model_dump_json(exclude=_WITHOUT_EFFECT)
    parts = (text, source.digest(dataset), model_digest(model))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


_WITHOUT_EFFECT: dict[str, Any] = {
    "job": True,
    "output": True,
    "checkpoint_steps": True,
    "weights_and_biases": True,
    "base_model": {"secret_name"},
    "dataset": {"secret_name"},
}
