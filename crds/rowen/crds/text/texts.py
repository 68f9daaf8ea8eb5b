"""Two fields as one text with a slash between: what a report has many of."""

from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from rowen.crds.base import ReadModel


class ObjectRef(ReadModel):
    """A namespaced object, by name."""

    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the object."""
    name: Annotated[str, Field(max_length=253)]
    """Name of the object."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class IdleWindow(ReadModel):
    """How idle a device was over a longer time."""

    seconds: Annotated[int, Field(ge=1)]
    """Time that it covers."""
    fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of it in which offline work might run, cooldowns taken off."""

    def __str__(self) -> str:
        return f"{self.fraction}/{self.seconds}s"


def _parted(value: Any, first: str, second: str, end: str = "") -> Any:
    """The two fields of a text, without what it ends with; anything else as it is."""
    if not isinstance(value, str) or "/" not in value:
        return value
    one, _, two = value.removesuffix(end).partition("/")
    return {first: one, second: two}


PodRef = Annotated[
    ObjectRef,
    BeforeValidator(partial(_parted, first="namespace", second="name")),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 317, "pattern": "^[^/]+/[^/]+$"}),
]
"""A pod, as `namespace/name`."""

IdleText = Annotated[
    IdleWindow,
    BeforeValidator(partial(_parted, first="fraction", second="seconds", end="s")),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 40, "pattern": "^[0-9.e-]+/[0-9]+s$"}),
]
"""As `0.6248/3600s`: the fraction, and the time that it covers."""
