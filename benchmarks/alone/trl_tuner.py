"""Plain TRL on the same rows with the same settings: what a user would write."""

import time
from typing import Any

from alone.timing import BATCH_ROWS, SEQUENCE_TOKENS, Run, epochs, say_steps
from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer


class _Clock(TrainerCallback):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_arguments: Any, **_others: Any) -> None:
        self.ends.append(time.monotonic())


def main() -> None:
    """Learns, and says how long it took."""
    asked, clock = Run.asked(), _Clock()
    trainer = SFTTrainer(
        model=asked.model,
        train_dataset=load_dataset("json", data_files=asked.data, split="train"),
        args=SFTConfig(
            output_dir=asked.output,
            num_train_epochs=epochs(asked.data, asked.steps),
            per_device_train_batch_size=BATCH_ROWS,
            max_length=SEQUENCE_TOKENS,
            learning_rate=0.001,
            lr_scheduler_type="constant",
            save_steps=asked.checkpoint_steps,
            save_total_limit=1,
            gradient_checkpointing=False,
            use_cpu=True,
            bf16=False,
            report_to="none",
            disable_tqdm=True,
        ),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"]),
        callbacks=[clock],
    )
    trainer.train()
    say_steps(clock.ends)


if __name__ == "__main__":
    main()
