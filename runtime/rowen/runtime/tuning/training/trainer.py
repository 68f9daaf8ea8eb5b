"""TRL's trainer on Rowen's data. Checkpoints and results are its callbacks'."""

from collections.abc import Iterator
from typing import Any

import numpy
import torch
from peft import PeftModel
from torch.utils.data import DataLoader, Sampler
from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling, SFTTrainer
from typing_extensions import override

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.dataset import Data
from rowen.runtime.tuning.data.order import Order


class Trainer(SFTTrainer):
    """Learns the sequences of the data in their order."""

    def __init__(
        self,
        model: PeftModel,
        settings: SFTConfig,
        data: Data,
        tokenizer: Any,
        callbacks: list[TrainerCallback],
        *,
        packed: bool,
        first_step: int,
    ) -> None:
        """With `first_step` steps done already. Raises `WorkerError` for settings that do not fit the model."""
        self._data = data
        self._learner = model
        self._batches = _Batches(data.order, first_step // data.order.steps_per_epoch)
        try:
            super().__init__(
                model=model,
                args=settings,
                train_dataset=data.training,
                eval_dataset=data.held_out if len(data.held_out) else None,
                processing_class=tokenizer,
                # What stands in place of no token is not looked at. In a batch of packed sequences there is none.
                data_collator=DataCollatorForLanguageModeling(pad_token_id=0, padding_free=packed),
                callbacks=callbacks,
            )
            self.create_optimizer()
        except ValueError as error:
            raise WorkerError("SpecInvalid", f"the trainer refuses the job: {error}") from error
        self.remove_callback(PrinterCallback)

    @override
    def get_train_dataloader(self) -> Any:
        return self.accelerator.prepare(
            DataLoader(
                self._data.training,
                batch_sampler=self._batches,
                collate_fn=self.data_collator,
                # It draws a number for each epoch: not one of those that a checkpoint restores.
                generator=torch.Generator(),
            )
        )

    @override
    def evaluation_loop(self, *_arguments: Any, metric_key_prefix: str = "eval", **_named: Any) -> EvalLoopOutput:
        metrics = {f"{metric_key_prefix}_loss": self.held_out_loss()}
        return EvalLoopOutput(numpy.empty(0), None, metrics, len(self._data.held_out))

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Mean loss per learned token of the held-out rows, whatever the loss is that is trained on."""
        self._learner.eval()
        total, learned = 0.0, 0
        for inputs in self.get_eval_dataloader():
            outputs = self._learner(**inputs, use_cache=False, fused_lm_head=True)
            total -= float(outputs.log_probs.double().sum())
            learned += int(outputs.label_mask.sum())
        return total / learned

    def base_loss(self) -> float:
        """The same without the adapter."""
        with self._learner.disable_adapter():
            return self.held_out_loss()

    @override
    def floating_point_ops(self, inputs: Any) -> int:
        # Nobody asks for it, and it counts all weights at each step.
        return 0

    @override
    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Nothing: the callback that hears of it next commits what later steps depend on."""

    @override
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Nothing: the callback that hears of the beginning restores it."""


class _Batches(Sampler[list[int]]):
    """The batches of one epoch after the other."""

    def __init__(self, order: Order, epoch: int) -> None:
        self._order = order
        self._epoch = epoch

    def __len__(self) -> int:
        return self._order.batches_per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._order.epoch(self._epoch)
        self._epoch += 1
