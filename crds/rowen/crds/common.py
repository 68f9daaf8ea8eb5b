"""Conditions, which several kinds share."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from rowen.crds.base import ReadModel, Timestamp

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(ReadModel):
    """A `metav1.Condition`."""

    type: Annotated[str, Field(max_length=316)]
    """Condition type, in CamelCase."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence for a person."""
    last_transition_time: Timestamp
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that this was computed from."""


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition of that type is present and True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def holds(stored: Iterable[Mapping[str, Any]], type_: str) -> bool:
    """As `is_true`, of conditions as the API server has them, of any kind of object."""
    return any((entry["type"], entry["status"]) == (type_, "True") for entry in stored)


def set_condition(
    current: Iterable[Condition],
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: str,
) -> Condition:
    """The new condition; its transition time moves only when its status changes."""
    previous = find_condition(current, type_)
    unchanged = previous is not None and previous.status == status
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=previous.last_transition_time if previous and unchanged else now,
        observed_generation=generation,
    )
