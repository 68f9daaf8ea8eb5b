"""A job's fields in the trainer's own terms."""

import math
from pathlib import Path

from trl.trainer.sft_config import SFTConfig

from rowen.crds.job.fine_tune import Learning
from rowen.runtime.failure import WorkerError

_SCHEDULES = {"Constant": "constant_with_warmup", "Linear": "linear", "Cosine": "cosine"}


def trainer_settings(learning: Learning, scratch: Path, steps: int, *, recomputes: bool) -> SFTConfig:
    """The settings of a training of so many steps. Raises `WorkerError`.

    The trainer writes nothing but into `scratch`: results go their own way. With `recomputes` the model computes
    activations again on the way back by itself.
    """
    arguments = learning.arguments.model_dump(exclude_none=True)
    evaluation = learning.evaluation
    try:
        return SFTConfig(
            output_dir=str(scratch),
            use_cpu=True,
            seed=learning.seed,
            num_train_epochs=learning.epochs,
            per_device_train_batch_size=learning.batch_size,
            per_device_eval_batch_size=learning.batch_size,
            gradient_accumulation_steps=learning.gradient_accumulation,
            learning_rate=learning.learning_rate,
            lr_scheduler_type=_SCHEDULES[learning.schedule],
            warmup_steps=math.ceil(steps * learning.warmup_fraction),
            max_grad_norm=learning.max_gradient_norm,
            bf16=learning.precision == "BFloat16",
            gradient_checkpointing=learning.gradient_checkpointing and not recomputes,
            eval_strategy="steps" if evaluation else "no",
            eval_steps=evaluation.steps if evaluation else None,
            save_strategy="steps",
            save_steps=learning.checkpoint_steps,
            logging_steps=1,
            # A loss that is not a number is one that a person must see.
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            # The sequences are tokens already, and no longer than they may be.
            dataset_kwargs={"skip_prepare_dataset": True},
            max_length=None,
            dataloader_pin_memory=False,
            **arguments,
        )
    except ValueError as error:
        raise WorkerError("SpecInvalid", f"the trainer refuses its arguments: {error}") from error
