"""The fine-tuning loop."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from peft import PeftModel

from rowen.crds.worker import TuningSpec
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import write_atomically
from rowen.runtime.tuning import adapter, checkpoint, dataset, loss, order
from rowen.runtime.tuning.checkpoint import Training
from rowen.runtime.tuning.dataset import Example
from rowen.runtime.worker import Progress

log = structlog.get_logger()

METRICS_FILE = "metrics.json"


@dataclass(frozen=True)
class Metrics:
    """What the job achieved; its file is written last and marks the job as complete."""

    digest: str
    """Identifies spec and dataset."""
    steps: int
    base_loss: float | None
    """Held-out loss per token of the base model; None when nothing was held out."""
    adapter_loss: float | None
    """Held-out loss per token with the adapter."""
    training_rows: int
    held_out_rows: int
    dropped_rows: int
    """Rows whose prompt alone fills the sequence."""
    training_losses: list[float]
    """Mean loss per token of each step."""

    def sentence(self) -> str:
        """For a person."""
        rows = f"{self.steps} steps over {self.training_rows} rows"
        dropped = f"; {self.dropped_rows} rows left nothing to learn" if self.dropped_rows else ""
        if self.base_loss is None or self.adapter_loss is None:
            return rows + dropped
        losses = f"held-out loss {self.base_loss:.4f} (base) -> {self.adapter_loss:.4f} (adapter)"
        return f"{losses}, {rows}, {self.held_out_rows} held out{dropped}"


class Tuner:
    """One attempt at a job."""

    def __init__(self, spec: TuningSpec, model: Path, fence: Fence, progress: Progress) -> None:
        self._spec = spec
        self._model = model
        self._fence = fence
        self._progress = progress
        self._folder = Path(spec.output_path)
        self._digest = job_digest(spec)

    def run(self) -> Metrics:
        """Trains from the last checkpoint to the end and writes the adapter. Raises `WorkerError`, `OSError`."""
        done = read_metrics(self._folder, self._digest)
        if done is not None:
            log.info("the job was complete already")
            self._progress.report(done.steps, done.steps)
            return done
        spec = self._spec
        rows = dataset.read_rows(Path(spec.dataset_path))
        tokenizer = adapter.load_tokenizer(self._model)
        examples = encode_rows(rows, tokenizer, spec.sequence_length)
        train, held_out = order.split(len(examples), spec.held_out_fraction, spec.seed)
        model = adapter.load_adapted(self._model, spec)
        training = self._start(model)
        self._train(model, training, examples, train)
        metrics = Metrics(
            digest=self._digest,
            steps=training.step,
            **_held_out_losses(model, [examples[index] for index in held_out], spec.batch_size),
            training_rows=len(train),
            held_out_rows=len(held_out),
            dropped_rows=len(rows) - len(examples),
            training_losses=training.losses,
        )
        self._finish(model, metrics)
        return metrics

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
        adapter.write_adapter(self._folder, model, self._spec.base_model.name_or_path)
        write_atomically(self._folder / METRICS_FILE, json.dumps(asdict(metrics), indent=1).encode())
        checkpoint.remove(self._folder)


def encode_rows(rows: list[dataset.Row], tokenizer: Any, sequence_length: int) -> list[Example]:
    """Examples of the rows, each closed by the end token. Raises `WorkerError` when nothing is left to learn."""
    end = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
    examples = dataset.encode(rows, lambda text: list(tokenizer(text)["input_ids"]), end, sequence_length)
    if not examples:
        message = f"no row leaves anything to learn within {sequence_length} tokens"
        raise WorkerError("DatasetMalformed", message)
    return examples


def job_digest(spec: TuningSpec) -> str:
    """Identifies what the result depends on: the spec but for its paths' volumes, and the dataset's bytes."""
    digest = hashlib.sha256(spec.model_dump_json(exclude={"output_path", "checkpoint_steps"}).encode())
    try:
        with Path(spec.dataset_path).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    except OSError as error:
        raise WorkerError("DatasetMissing", f"{spec.dataset_path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def read_metrics(folder: Path, digest: str) -> Metrics | None:
    """The metrics of this job if it is complete; those of another job are removed."""
    path = folder / METRICS_FILE
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        value = {}
    if isinstance(value, dict) and value.get("digest") == digest:
        return Metrics(**value)
    log.warning("the output holds another job's result, which will be replaced", path=str(path))
    path.unlink()
    return None


def _held_out_losses(model: PeftModel, examples: list[Example], batch_size: int) -> dict[str, float | None]:
    if not examples:
        return {"base_loss": None, "adapter_loss": None}
    model.eval()
    adapted = loss.mean_loss(model, examples, batch_size)
    with model.disable_adapter():
        base = loss.mean_loss(model, examples, batch_size)
    return {"base_loss": base, "adapter_loss": adapted}
