"""JSON files that a user writes, and what is wrong with them: a line for each fault."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from rowen.crds.faults import Fault
from rowen.crds.faults import faults as found
from rowen.crds.text.clip import clipped

Model = TypeVar("Model", bound=BaseModel)
_MOST_LETTERS = 40
"""Of what was given."""


class InputError(Exception):
    """What was given is not what was expected: a line for each fault."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


def read_json(path: Path) -> object:
    """The file's content. Raises `InputError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        told = f"{path}, line {error.lineno}, column {error.colno}: JSON was expected: {error.msg}"
    except OSError as error:
        told = f"{path}: a JSON file was expected: {error.strerror}"
    except (ValueError, RecursionError) as error:
        told = f"{path}: a JSON file was expected: {error}"
    raise InputError([told])


def read_as(model: type[Model], content: object, where: str) -> Model:
    """The content as a model; `where` names it. Raises `InputError`."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        fields = ", ".join(model.model_fields)
        raise InputError(f"{where}: {fault}" for fault in faults(error, fields)) from None


def faults(error: ValidationError, fields: str, names: Mapping[str, str] | None = None) -> list[str]:
    """Field, what was expected of it and what it is, of each fault.

    `fields` are those that there are; `names` what they are called where that is something else.
    """
    return [_line(fault, fields, names or {}) for fault in found(error)]


def _line(fault: Fault, fields: str, names: Mapping[str, str]) -> str:
    field = f"{names.get(fault.field, fault.field)}: " if fault.field else ""
    if fault.unknown:
        return f"{field}{fault.words}; there are {fields}"
    return f"{field}{fault.words}" + (f", not {_given(fault.given)}" if fault.expects else "")


def _given(value: object) -> str:
    return clipped(json.dumps(value, default=str), _MOST_LETTERS)
