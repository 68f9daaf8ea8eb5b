"""The messages between job and engine: one JSON object each, with sealed memory (SCM_RIGHTS) where it says so.

A job says `Hello` and hears `Welcome` or `Refusal`. Then it says `TaskHeader`, hears `ResultHeader`, and so on, one
task at a time; before a `ResultHeader` it may hear `Working`. A `Refusal` may come at any time, and is the engine's
last word.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from rowen.crds.base import ReadModel
from rowen.runtime.coserve.task import Target

WIRE_VERSION = 1
"""Of these messages and of the memory that goes with them."""
LONGEST_MESSAGE = 65536
"""Bytes."""
MOST_SEQUENCES = 4096
"""Of a task: to look at each of them takes time that the engine could use."""

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class Hello(ReadModel):
    """A job says what it trains."""

    kind: Literal["Hello"] = "Hello"
    version: int = WIRE_VERSION
    model: Annotated[str, Field(max_length=64)]
    """Digest of its copy of the base model."""
    precision: Literal["Float32", "BFloat16"]
    """Type in which the model is to compute."""
    rank: Annotated[int, Field(ge=1, le=512)]
    scaling: _Finite
    places: Annotated[list[tuple[_Count, Target]], Field(min_length=1, max_length=4096)]
    """What is adapted, in the order in which its weights lie in memory."""
    hears_working: bool = False
    """It knows `Working`."""


class Welcome(ReadModel):
    """The job may send tasks."""

    kind: Literal["Welcome"] = "Welcome"


class Working(ReadModel):
    """The engine has no answer yet, and gets on with its riders' tasks."""

    kind: Literal["Working"] = "Working"


class Refusal(ReadModel):
    """The engine does not work for the job, or not any more."""

    kind: Literal["Refusal"] = "Refusal"
    message: Annotated[str, Field(max_length=2048)]
    """For people."""
    retry: bool
    """It, or another engine with the same model, may do so later."""


class TaskHeader(ReadModel):
    """A task. Memory comes along: the adapter's weights where they are `fresh`, and then the sequences."""

    kind: Literal["Task"] = "Task"
    number: _Count
    adapted: bool
    """Else the base model is asked."""
    fresh: bool
    """The weights have changed since they were sent last, or were not sent yet."""
    sequences: Annotated[int, Field(ge=1, le=MOST_SEQUENCES)]
    tokens: Annotated[int, Field(ge=1, lt=2**40)]
    """Of all of them."""
    loss_scale: _Finite
    gradients: bool


class ResultHeader(ReadModel):
    """The answer to a task. The gradients' memory comes along where they were asked for.

    It is to be read before the next task is sent: the engine takes it back then.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")

    kind: Literal["Result"] = "Result"
    number: _Count
    loss_sum: float
    learned_tokens: _Count
    correct_tokens: _Count


FROM_JOB: TypeAdapter[Hello | TaskHeader] = TypeAdapter(Annotated[Hello | TaskHeader, Field(discriminator="kind")])
FROM_ENGINE: TypeAdapter[Welcome | Refusal | Working | ResultHeader] = TypeAdapter(
    Annotated[Welcome | Refusal | Working | ResultHeader, Field(discriminator="kind")]
)
