"""Fine-tuning: what an OfflineJob learns, from what, and how."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rowen.crds.base import ApiModel, Name, rules
from rowen.crds.job.apart import apart
from rowen.crds.job.place import InputPlace, ModelSource, OutputPlace
from rowen.crds.job.trainer_arguments import TrainerArguments

ALL_LINEAR = "all-linear"
"""In the place of module names: every linear layer but the output layer."""


class Lora(ApiModel):
    """Low-rank adaptation (PEFT's `LoraConfig`)."""

    rank: Annotated[int, Field(ge=1, le=512)] = 16
    """Rank of the update matrices."""
    alpha: Annotated[int, Field(ge=1, le=1024)] = 32
    """Scaling numerator: updates are scaled by alpha / rank, or alpha / √rank where rank-stabilized."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Part of the adapter's inputs that is dropped while it learns."""
    rank_stabilized: bool = False
    """Scale by alpha / √rank (rsLoRA), so that a high rank learns as a low one does."""
    target_modules: Annotated[
        list[Annotated[str, Field(pattern=r"^([A-Za-z0-9_.]+|all-linear)$", max_length=128)]],
        Field(min_length=1, max_length=32),
    ] = ["q_proj", "v_proj"]
    """Linear layers that are adapted, by the last part of their name; `all-linear` alone means all of them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.targetModules) || self.targetModules.size() == 1"
                f" || !self.targetModules.exists(name, name == '{ALL_LINEAR}')",
                f"targetModules: {ALL_LINEAR} stands alone",
            )
        )
    )


class Evaluation(ApiModel):
    """Evaluation while it trains, on the held-out rows."""

    steps: Annotated[int, Field(ge=1, le=100000)]
    """Optimizer steps between two evaluations."""
    keep_best: bool = True
    """The result is the adapter of the evaluation with the least loss, not of the last step."""


class WeightsAndBiases(ApiModel):
    """Where losses and learning rates are shown while it trains; needs a network path to the server from the pod."""

    project: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.-]+$")]
    """Project that receives the run, which has the job's name."""
    secret_name: Name
    """Secret of the same namespace with `WANDB_API_KEY`, and `WANDB_BASE_URL` for a server of one's own."""


class Learning(ApiModel):
    """How it is learned."""

    lora: Lora = Lora()
    """Adapter shape."""
    assistant_only_loss: bool = False
    """Of `messages` learn what the assistant says, and nothing else."""
    malformed_rows: Literal["Fail", "Skip"] = "Fail"
    """Rows of the dataset that are wrong end the job, or are left out; either way they are told with their lines."""
    packing: bool = False
    """Put several rows into one sequence, so that less is computed for nothing."""
    epochs: Annotated[int, Field(ge=1, le=1000)] = 1
    """Passes over the dataset."""
    batch_size: Annotated[int, Field(ge=1, le=1024)] = 4
    """Sequences that are computed together."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=1024)] = 1
    """Batches of an optimizer step."""
    sequence_length: Annotated[int, Field(ge=8, le=131072)] = 128
    """Tokens per sequence; longer rows are cut, and counted in the result."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.001
    """Learning rate at its highest."""
    schedule: Literal["Constant", "Linear", "Cosine"] = "Constant"
    """How the learning rate goes on after the warm-up: as it is, or down to 0."""
    warmup_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Part of the steps in which the learning rate rises from 0."""
    max_gradient_norm: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Longer gradients are cut to this norm."""
    precision: Literal["Float32", "BFloat16"] = "Float32"
    """Type in which the model computes; the adapter's weights stay in float32. Only float32 resumes bit for bit."""
    gradient_checkpointing: bool = False
    """Compute activations again in the way back in place of keeping them: less memory, a third more to compute."""
    held_out_fraction: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Part of the dataset that is kept for evaluation."""
    evaluation: Evaluation | None = None
    """Evaluation while it trains; by default before and after."""
    checkpoint_steps: Annotated[int, Field(ge=1, le=100000)] = 10
    """Optimizer steps between two checkpoints."""
    weights_and_biases: WeightsAndBiases | None = None
    """Also shown there; TensorBoard's files are in the output folder in any case."""
    arguments: TrainerArguments = TrainerArguments()
    """What no other field names, e.g. `weight_decay: 0.01`."""
    seed: Annotated[int, Field(ge=0, le=2147483647)] = 0
    """Seed of the data order and of the adapter's first weights."""


class FineTune(Learning):
    """LoRA fine-tuning of a base model with TRL."""

    base_model: ModelSource
    """Model to adapt."""
    dataset: InputPlace
    """JSONL or Parquet file, or a folder of them: rows with `messages`, with `prompt` and `completion`, or with
    `text`."""
    output: OutputPlace
    """Folder that receives the adapter and, while it runs, the checkpoints."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            apart("output", "dataset"),
            apart("output", "baseModel"),
            (
                "!has(self.evaluation) || !has(self.heldOutFraction) || self.heldOutFraction > 0.0",
                "evaluation needs a heldOutFraction above 0",
            ),
        )
    )
