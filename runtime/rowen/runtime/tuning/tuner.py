"""One attempt at a fine-tuning job."""

import hashlib
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import structlog
from peft import PeftModel
from transformers import TrainerCallback

from rowen.crds.job.worker import TuningSpec
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.tuning import adapter
from rowen.runtime.tuning.checkpoint import Checkpoint
from rowen.runtime.tuning.computing import Computing, Here
from rowen.runtime.tuning.data import source
from rowen.runtime.tuning.data.dataset import Data, read_data
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.metrics import Metrics
from rowen.runtime.tuning.results.results import Results
from rowen.runtime.tuning.riding.riding import Riding
from rowen.runtime.tuning.training.attempt import Attempt, resume_state
from rowen.runtime.tuning.training.settings import trainer_settings
from rowen.runtime.tuning.training.tracking import Events, weights_and_biases
from rowen.runtime.tuning.training.trainer import Trainer
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
        link: RideLink | None = None,
    ) -> None:
        """`model` and `dataset` are local, wherever the spec has them from.

        With a link the engine that serves the model computes. Else this process does; with a part of the pool the
        layers' weights are there, as many at a time as it grants, without in memory.
        """
        self._spec = spec
        self._model = model
        self._progress = progress
        self._computing: Computing = Riding(spec, model, link) if link else Here(spec, model, part)
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
        with self._computing.model(self._spec.batch_size * max(data.lengths)) as model:
            metrics = self._learn(model, tokenizer, data)
            files = adapter.adapter_files(model, self._spec.base_model.name_or_path, self._digest)
        self._results.finish(files, metrics)
        return metrics

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
            settings = trainer_settings(spec, scratch, steps, recomputes=self._computing.recomputes)
            # The attempt comes last: what a checkpoint restores is not to be changed by the others.
            callbacks = [events.callback(), *shown, attempt]
            trainer = self._computing.trainer(
                model, settings, data, tokenizer, callbacks, packed=spec.packing, first_step=step
            )
            done = resume_state(scratch, step, settings, data.order.steps_per_epoch) if step else None
            trainer.train(resume_from_checkpoint=str(done) if done else None)
        attempt.load_best(model)
        return self._metrics(trainer, data, attempt)

    def _start(self) -> Checkpoint | None:
        saved = self._results.checkpoint()
        return Checkpoint.from_bytes(saved, self._digest) if saved is not None else None

    def _shown(self, scratch: Path) -> AbstractContextManager[list[TrainerCallback]]:
        return weights_and_biases(self._spec.weights_and_biases, self._spec.job, self._digest, scratch)

    def _metrics(self, trainer: Trainer, data: Data, attempt: Attempt) -> Metrics:
        adapter_loss = base_loss = None
        if len(data.held_out):
            adapter_loss = trainer.held_out_loss()
            base_loss = trainer.base_loss()
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
            skipped_rows=data.skipped_rows,
            skipped=data.skipped,
        )


def job_digest(spec: TuningSpec, model: Path, dataset: Path) -> str:
    """Identifies what the result depends on: the spec, the dataset's bytes and the base model's files.

    Raises `WorkerError`.
    """
    text = spec.model_dump_json(exclude=_WITHOUT_EFFECT)
    parts = (text, source.digest(dataset), model_digest(model))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


_WITHOUT_EFFECT: dict[str, Any] = {
    "job": True,
    # What a job has learned from at all had the same rows either way.
    "malformed_rows": True,
    "output": True,
    "checkpoint_steps": True,
    "weights_and_biases": True,
    "base_model": {"secret_name"},
    "dataset": {"secret_name"},
}
