"""What a training tells and keeps while it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from typing_extensions import override

from rowen.runtime.tuning.checkpoint import Checkpoint, Learned, load_weights, trainable
from rowen.runtime.worker import Progress

log = structlog.get_logger()


class Attempt(TrainerCallback):
    """Reports each step, and commits checkpoints."""

    def __init__(
        self,
        start: Checkpoint | None,
        progress: Progress,
        step_tokens: Callable[[int], int],
        commit: Callable[[Checkpoint], None],
        *,
        keep_best: bool,
    ) -> None:
        """Goes on from `start`. `step_tokens` are those of a step, counted from 0."""
        self._start = start
        self._progress = progress
        self._step_tokens = step_tokens
        self._commit = commit
        self._keep_best = keep_best
        self.learned = start.learned if start else Learned()
        self._best = start.best if start else {}

    @property
    def best_step(self) -> int | None:
        """Step of the evaluation whose adapter is kept, if one is."""
        return min(self.learned.evaluations, key=lambda found: found[1])[0] if self._best else None

    def load_best(self, model: Any) -> None:
        """Replaces the model's adapter by the one that is kept, if one is."""
        if self._best:
            load_weights(model, self._best)

    @override
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        if self._start is not None:
            self._start.restore(parts["model"], parts["optimizer"], parts["lr_scheduler"])
            log.info("resumed", step=self.learned.step)
        self._progress.report(self.learned.step, state.max_steps)

    @override
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        self._progress.report(state.global_step, state.max_steps, self._step_tokens(self.learned.step))
        self.learned.step = state.global_step

    @override
    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        if "loss" in parts["logs"]:
            self.learned.losses.append(parts["logs"]["loss"])
        # The trainer keeps all that it logs, and it logs each step.
        state.log_history.clear()

    @override
    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        loss = parts["metrics"]["eval_loss"]
        log.info("evaluation", step=state.global_step, loss=loss)
        if self._keep_best and all(loss < former for _, former in self.learned.evaluations):
            self._best = {name: weight.detach().clone() for name, weight in trainable(parts["model"]).items()}
        self.learned.evaluations.append((state.global_step, loss))

    @override
    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        model, optimizer, scheduler = parts["model"], parts["optimizer"], parts["lr_scheduler"]
        self._commit(Checkpoint.of(model, optimizer, scheduler, self.learned, self._best))
        log.info("checkpoint", step=state.global_step, total=state.max_steps, loss=self.learned.losses[-1])


def resume_state(scratch: Path, step: int, settings: TrainingArguments, steps_per_epoch: int) -> Path:
    """A folder that tells the trainer how many steps are done."""
    state = TrainerState(
        global_step=step,
        epoch=step / steps_per_epoch,
        logging_steps=int(settings.logging_steps),
        eval_steps=int(settings.eval_steps or 0),
        save_steps=int(settings.save_steps),
        train_batch_size=settings.train_batch_size,
    )
    folder = scratch / "resume"
    folder.mkdir()
    state.save_to_json(str(folder / "trainer_state.json"))
    return folder
