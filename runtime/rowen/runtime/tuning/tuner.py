"""The fine-tuning loop."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog
import torch
from peft import PeftModel

from rowen.crds.base import quantity_text
from rowen.crds.worker import TuningSpec
from rowen.runtime.failure import WorkerError, reading
from rowen.runtime.fence import Fence
from rowen.runtime.files import has_file, write_atomically
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.tuning import adapter, checkpoint, dataset, loss, order
from rowen.runtime.tuning.checkpoint import Training
from rowen.runtime.tuning.examples import Example, encode_rows
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.metrics import METRICS_FILE, Metrics, read_metrics
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE
from rowen.runtime.tuning.window.layers import layers_of, movable_tensors
from rowen.runtime.tuning.window.places import handle_counts
from rowen.runtime.tuning.window.saved_inputs import most_handles
from rowen.runtime.tuning.window.window import Window
from rowen.runtime.worker import Progress

log = structlog.get_logger()


class Tuner:
    """One attempt at a job."""

    def __init__(
        self, spec: TuningSpec, model: Path, fence: Fence, progress: Progress, part: PoolPart | None = None
    ) -> None:
        """With a part of the pool the layers' weights are there, as many at a time as it grants; else in memory."""
        self._spec = spec
        self._model = model
        self._fence = fence
        self._progress = progress
        self._part = part
        self._folder = Path(spec.output.where)
        self._digest = job_digest(spec, model)

    def run(self) -> Metrics:
        """Trains from the last checkpoint to the end and writes the adapter. Raises `WorkerError`, `OSError`."""
        done = read_metrics(self._folder, self._digest)
        if done is not None and all(has_file(self._folder / name) for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE)):
            log.info("the job was complete already")
            self._fence.check()
            # A kill may have come between the metrics and this.
            checkpoint.remove(self._folder)
            self._progress.report(done.steps, done.steps)
            return done
        spec = self._spec
        rows = dataset.read_rows(Path(spec.dataset.where))
        tokenizer = adapter.load_tokenizer(self._model)
        examples = encode_rows(rows, tokenizer, spec.sequence_length)
        train, held_out = order.split(len(examples.kept), spec.held_out_fraction, spec.seed)
        base = adapter.load_base(self._model, mapped=self._part is not None)
        batch_tokens = spec.batch_size * max(len(examples.kept[index].tokens) for index in train)
        with self._placed(base, batch_tokens):
            model = adapter.add_adapter(base, spec)
            training = self._start(model)
            self._train(model, training, examples.kept, train)
            losses = _held_out_losses(model, [examples.kept[index] for index in held_out], spec.batch_size)
        metrics = Metrics(
            digest=self._digest,
            steps=training.step,
            **losses,
            training_rows=len(train),
            held_out_rows=len(held_out),
            cut_rows=examples.cut_rows,
            dropped_rows=examples.dropped_rows,
            training_losses=training.losses,
        )
        self._finish(model, metrics)
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

    def _start(self, model: PeftModel) -> Training:
        weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        optimizer = torch.optim.AdamW(weights.values(), lr=self._spec.learning_rate)
        training = Training(adapter=weights, optimizer=optimizer, step=0, losses=[])
        if checkpoint.restore(self._folder, self._digest, training):
            log.info("resumed", step=training.step)
        return training

    def _train(self, model: PeftModel, training: Training, examples: list[Example], rows: list[int]) -> None:
        spec = self._spec
        total = spec.epochs * order.steps_per_epoch(len(rows), spec.batch_size)
        self._progress.report(training.step, total)
        model.train()
        while training.step < total:
            chosen = [examples[index] for index in order.batch(rows, spec.batch_size, training.step, spec.seed)]
            training.optimizer.zero_grad(set_to_none=True)
            summed, learned = loss.batch_loss(model, chosen)
            mean = summed / learned
            mean.backward()  # type: ignore[no-untyped-call]
            training.optimizer.step()
            training.losses.append(float(mean.detach()))
            training.step += 1
            self._progress.report(training.step, total, sum(len(example.tokens) for example in chosen))
            if training.step % spec.checkpoint_steps == 0 or training.step == total:
                self._fence.check()
                checkpoint.store(self._folder, self._digest, training)
                log.info("checkpoint", step=training.step, total=total, loss=training.losses[-1])

    def _finish(self, model: PeftModel, metrics: Metrics) -> None:
        self._fence.check()
        # Metrics of another job must not stand beside this one's adapter.
        (self._folder / METRICS_FILE).unlink(missing_ok=True)
        adapter.write_adapter(self._folder, model, self._spec.base_model.name_or_path, self._digest)
        write_atomically(self._folder / METRICS_FILE, json.dumps(asdict(metrics), indent=1).encode())
        checkpoint.remove(self._folder)


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


def job_digest(spec: TuningSpec, model: Path) -> str:
    """Identifies what the result depends on: the spec, the dataset's bytes and the base model's files.

    Raises `WorkerError`.
    """
    digest = hashlib.sha256(spec.model_dump_json(exclude={"job", "output", "checkpoint_steps"}).encode())
    path = Path(spec.dataset.where)
    with reading("DatasetMissing", path), path.open("rb") as stream:
        digest.update(hashlib.file_digest(stream, "sha256").digest())
    digest.update(model_digest(model).encode())
    return digest.hexdigest()


def _held_out_losses(model: PeftModel, examples: list[Example], batch_size: int) -> dict[str, float | None]:
    if not examples:
        return {"base_loss": None, "adapter_loss": None}
    model.eval()
    adapted = loss.mean_loss(model, examples, batch_size)
    with model.disable_adapter():
        base = loss.mean_loss(model, examples, batch_size)
    return {"base_loss": base, "adapter_loss": adapted}
