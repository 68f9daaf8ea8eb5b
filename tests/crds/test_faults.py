"""Errors of pydantic and of JSON in words."""

import json
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from rowen.crds.base import Quantity
from rowen.crds.faults import Fault, FieldFaultsError, faults, not_json


def _below(value: int) -> int:
    if value < 0:
        raise FieldFaultsError([("a[0]", "one"), ("b", "two")])
    return value


class Inner(BaseModel):
    names: Annotated[list[Annotated[str, Field(pattern="^x+$")]], Field(min_length=1)] = ["x"]
    memory: Quantity = "1Gi"
    number: Annotated[int, AfterValidator(_below)] = 0


class Outer(BaseModel, extra="forbid"):
    inner: list[Inner]


def found(content: object) -> list[Fault]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(content)
    return faults(caught.value)


def test_each_fault_has_its_field_and_what_was_expected() -> None:
    assert found({"inner": [{}, {"names": ["y"], "memory": "4GB"}], "other": 1}) == [
        Fault("inner[1].names[0]", "text that matches ^x+$ was expected", "y", expects=True),
        Fault("inner[1].memory", "an amount of memory was expected, as 4Gi or 500M", "4GB", expects=True),
        Fault("other", "there is no such field", 1, unknown=True),
    ]
    assert found({}) == [Fault("inner", "it is missing", {})]
    assert found([]) == [Fault("", "an object with fields was expected", [], expects=True)]
    assert [fault.words for fault in found({"inner": [{"names": []}]})] == ["at least 1 item was expected"]


def test_what_a_validator_finds_below_its_field_is_told_with_the_whole_path() -> None:
    assert found({"inner": [{"number": -1}]}) == [
        Fault("inner[0].number.a[0]", "one"),
        Fault("inner[0].number.b", "two"),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"a": 1', "not JSON: Expecting ',' delimiter at character 8"),
        (b'{"a": "b', "not JSON: Unterminated string starting at character 7"),
        (b'{"a": "b\n', "not JSON: Invalid control character at character 9"),
        (b'{"a": "\\d"}', "not JSON: Invalid \\escape at character 8"),
        (b'{"a": "\xff"}', "not JSON: 'utf-8' codec can't decode byte 0xff in position 7: invalid start byte"),
    ],
)
def test_what_is_no_json_is_told_by_its_place(line: bytes, told: str) -> None:
    with pytest.raises(ValueError) as raised:
        json.loads(line)
    assert not_json(raised.value) == told
