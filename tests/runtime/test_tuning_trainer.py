"""What is learned is what TRL learns by itself of the same rows in the same order."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from runtime.tuning_runs import spec
from transformers import TrainerCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer
from typing_extensions import override

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.trainer_arguments import TrainerArguments
from rowen.runtime.tuning.adapter import add_adapter, load_base, load_tokenizer
from rowen.runtime.tuning.checkpoint import trainable
from rowen.runtime.tuning.data.dataset import read_data
from rowen.runtime.tuning.data.order import split
from rowen.runtime.tuning.training.settings import trainer_settings
from rowen.runtime.tuning.training.trainer import Trainer

CHANGE: dict[str, Any] = {
    "epochs": 1,
    "batch_size": 3,
    "gradient_accumulation": 2,
    "lora": Lora(rank=4, alpha=8, target_modules=["all-linear"]),
    "schedule": "Cosine",
    "warmup_fraction": 0.5,
    "arguments": TrainerArguments(weight_decay=0.1),
}


class Losses(TrainerCallback):
    def __init__(self) -> None:
        self.found: list[float] = []

    @override
    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        self.found += [logs["loss"]] if "loss" in logs else []


@pytest.mark.parametrize(("precision", "bf16"), [("Float32", False), ("BFloat16", True)])
def test_losses_and_weights_are_those_of_plain_trl(
    precision: str, bf16: bool, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    job = spec(tiny_model, dataset, tmp_path, precision=precision, **CHANGE)
    tokenizer = load_tokenizer(tiny_model)
    data = read_data(job, dataset, tokenizer)
    model, losses = add_adapter(load_base(tiny_model), job), Losses()
    settings = trainer_settings(job, tmp_path, data.order.steps_per_epoch, recomputes=False)
    Trainer(model, settings, data, tokenizer, [losses], packed=False, first_step=0).train()

    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    train, _ = split(len(rows), job.held_out_fraction, job.seed)
    order = [train[index] for batch in data.order.epoch(0) for index in batch]
    plain, expected = add_adapter(load_base(tiny_model), job), Losses()
    arguments = SFTConfig(
        output_dir=str(tmp_path / "trl"),
        use_cpu=True,
        bf16=bf16,
        seed=job.seed,
        num_train_epochs=1,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=2,
        learning_rate=job.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=2,
        weight_decay=0.1,
        gradient_checkpointing=False,
        max_length=job.sequence_length,
        train_sampling_strategy="sequential",
        save_strategy="no",
        logging_steps=1,
        report_to="none",
    )
    SFTTrainer(
        model=plain,
        args=arguments,
        train_dataset=Dataset.from_list([rows[index] for index in order]),
        processing_class=load_tokenizer(tiny_model),
        callbacks=[expected],
    ).train()
    assert len(losses.found) == data.order.steps_per_epoch == 3
    assert losses.found == expected.found
    others = trainable(plain)
    assert all(torch.equal(weight, others[name]) for name, weight in trainable(model).items())
