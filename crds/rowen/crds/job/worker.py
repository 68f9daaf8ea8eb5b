"""What the operator hands a job's worker, and what the worker says when it ends.

The spec travels as JSON in the environment variable `ROWEN_JOB_SPEC`; volumes are mounted at
`/volumes/<claim>`, secrets at `/secrets/<secret>`. The result is JSON in the container's termination log.
"""

from enum import IntEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from rowen.crds.base import ApiModel
from rowen.crds.job.fine_tune import Learning


class ExitCode(IntEnum):
    """How a worker ends."""

    DONE = 0
    RETRY = 1
    """Something passing went wrong: another attempt may succeed."""
    USER_ERROR = 64
    """The input is wrong: another attempt would fail in the same way."""


RIDE_LOST = "RideLost"
"""Reason of a worker whose engine is away, or takes nobody in for the moment: no failure, but they are counted."""
RIDE_BROKEN = "RideBroken"
"""Reason of a worker whose engine was lost over its work, and did not come back: no failure, but they are counted."""
RIDE_REFUSED = "RideRefused"
"""Reason of a worker whose engine cannot compute its job: it counts as no failure, and the job rides no more."""


class Location(ApiModel):
    """A file or folder as the worker finds it."""

    where: str
    """Absolute path in the pod, or an address: `s3://`, `gs://`, `hf://`."""
    secret_name: str | None = None
    """Secret with the credentials for the address; its keys are files in `SECRETS_DIRECTORY/<name>`."""


class ModelLocation(ApiModel):
    """A model as the worker finds it: a folder, an address of one, or a hub repository with a revision."""

    name_or_path: str
    revision: str | None = None
    secret_name: str | None = None
    """As of a `Location`."""


class TuningSpec(Learning):
    """Input of `python -m rowen.runtime.tuning`."""

    kind: Literal["FineTune"] = "FineTune"
    job: str = ""
    """Name of the job, for people."""
    base_model: ModelLocation
    dataset: Location
    output: Location


class BatchSpec(ApiModel):
    """Input of `python -m rowen.runtime.batch`."""

    kind: Literal["BatchInference"] = "BatchInference"
    model: ModelLocation
    adapter: Location | None = None
    input: Location
    output: Location
    errors: Location | None = None
    args: list[str] = []
    """Further arguments of vLLM's API server."""
    memory_bytes: int
    """The job's memory of its own, in which its weights are; without a part of the pool its key-value cache, too."""


WorkerSpec: TypeAdapter[TuningSpec | BatchSpec] = TypeAdapter(
    Annotated[TuningSpec | BatchSpec, Field(discriminator="kind")]
)


class WorkerResult(ApiModel):
    """What a worker writes to its termination log."""

    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]*$", max_length=64)]
    """CamelCase reason: `Completed`, `SpecInvalid`, `ModelMissing`, `ModelUnsuitable`, `DatasetMissing`,
    `DatasetMalformed`, `InputMissing`, `OutputUnwritable`, `DiskFull`, `MemoryTooSmall`, `Superseded`, `RideLost`,
    `RideBroken`, `RideRefused`, `Failed`."""
    message: Annotated[str, Field(max_length=2048)]
    """For a person; names the file and line where there is one."""
    unit: Literal["steps", "rows"]
    completed: int
    total: int
