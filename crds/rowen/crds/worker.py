"""What the operator hands a job's worker, and what the worker says when it ends.

The spec travels as JSON in the environment variable `ROWEN_JOB_SPEC`; volumes are mounted at
`/volumes/<claim>`. The result is JSON in the container's termination log.
"""

from enum import IntEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from rowen.crds.base import ApiModel
from rowen.crds.offline_job import Lora


class ExitCode(IntEnum):
    """How a worker ends."""

    DONE = 0
    RETRY = 1
    """Something passing went wrong: another attempt may succeed."""
    USER_ERROR = 64
    """The input is wrong: another attempt would fail in the same way."""


class ModelLocation(ApiModel):
    """A model as the worker finds it: a folder, or a hub repository with a revision."""

    name_or_path: str
    revision: str | None = None


class TuningSpec(ApiModel):
    """Input of `python -m rowen.runtime.tuning`."""

    kind: Literal["FineTune"] = "FineTune"
    base_model: ModelLocation
    dataset_path: str
    output_path: str
    lora: Lora
    epochs: int
    batch_size: int
    sequence_length: int
    learning_rate: float
    held_out_fraction: float
    checkpoint_steps: int
    seed: int


class BatchSpec(ApiModel):
    """Input of `python -m rowen.runtime.batch`."""

    kind: Literal["BatchInference"] = "BatchInference"
    model: ModelLocation
    input_path: str
    output_path: str
    memory_bytes: int
    """The job's memory of its own, in which its weights are; without a part of the pool its key-value cache, too."""


WorkerSpec: TypeAdapter[TuningSpec | BatchSpec] = TypeAdapter(
    Annotated[TuningSpec | BatchSpec, Field(discriminator="kind")]
)


class WorkerResult(ApiModel):
    """What a worker writes to its termination log."""

    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]*$", max_length=64)]
    """CamelCase reason: `Completed`, `SpecInvalid`, `ModelMissing`, `ModelUnsuitable`, `DatasetMissing`,
    `DatasetMalformed`, `InputMissing`, `OutputUnwritable`, `DiskFull`, `MemoryTooSmall`, `Superseded`, `Failed`."""
    message: Annotated[str, Field(max_length=2048)]
    """For a person; names the file and line where there is one."""
    unit: Literal["steps", "rows"]
    completed: int
    total: int
