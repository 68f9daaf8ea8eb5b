"""The conversion from pydantic's JSON Schema to a structural one."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, computed_field

from rowen.crds.base import ApiModel
from rowen.crds.definition.manifest import object_schema
from rowen.crds.definition.schema import Schema, structural_schema, walk
from rowen.crds.kinds import KINDS, Kind


class _Inner(ApiModel):
    """An inner value."""

    depth: int = 3


class _Model(ApiModel):
    """A model."""

    inner: _Inner = _Inner()
    """The field."""
    maybe: _Inner | None = None
    share: Annotated[float, Field(gt=0, lt=1)]
    mode: Literal["one"] = "one"
    level: Literal[1, 2] | None = None
    small: Annotated[int, Field(le=10)] = 1
    names: list[Annotated[str, Field(max_length=5)]] = ["a"]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def display(self) -> str:
        """Derived."""
        return "x"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (
            "inner",
            {
                "type": "object",
                "description": "The field. An inner value.",
                "default": {},
                "properties": {"depth": {"type": "integer", "format": "int64", "default": 3}},
            },
        ),
        (
            "maybe",
            {
                "type": "object",
                "description": "An inner value.",
                "properties": {"depth": {"type": "integer", "format": "int64", "default": 3}},
            },
        ),
        ("share", {"type": "number", "minimum": 0, "maximum": 1, "exclusiveMinimum": True, "exclusiveMaximum": True}),
        ("mode", {"type": "string", "enum": ["one"], "default": "one"}),
        ("level", {"type": "integer", "format": "int64", "enum": [1, 2]}),
        ("small", {"type": "integer", "format": "int32", "maximum": 10, "default": 1}),
        ("names", {"type": "array", "default": ["a"], "items": {"type": "string", "maxLength": 5}}),
        ("display", {"type": "string", "description": "Derived."}),
    ],
)
def test_field(field: str, expected: Schema) -> None:
    assert structural_schema(_Model, defaults=True)["properties"][field] == expected


def test_only_what_the_writer_must_give_is_required() -> None:
    assert structural_schema(_Model, defaults=True)["required"] == ["share"]


def test_a_union_is_refused() -> None:
    class Union(ApiModel):
        value: int | str

    with pytest.raises(ValueError, match="no unions"):
        structural_schema(Union, defaults=True)


def _nodes(kind: Kind, part: str) -> dict[str, Schema]:
    nodes: dict[str, Schema] = {}

    def visit(path: str, node: Schema) -> None:
        nodes[path] = node

    walk(object_schema(kind)["properties"][part], visit, part)
    return nodes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_texts_and_lists_of_a_spec_are_bounded(kind: Kind) -> None:
    """CEL's cost estimate needs bounds, and nobody stores a megabyte in a field by accident."""
    unbounded = [
        path
        for path, node in _nodes(kind, "spec").items()
        if (node.get("type") == "string" and "maxLength" not in node and "enum" not in node)
        or (node.get("type") == "array" and "maxItems" not in node)
    ]
    assert unbounded == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_api_server_never_invents_a_status(kind: Kind) -> None:
    assert [path for path, node in _nodes(kind, "status").items() if "default" in node] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_is_explained(kind: Kind) -> None:
    bare = [
        path
        for part in ("spec", "status")
        for path, node in _nodes(kind, part).items()
        if not path.endswith("[]") and not node.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_columns_point_at_fields(kind: Kind) -> None:
    types: dict[str, Any] = {"date": "string", "string": "string", "integer": "integer", "number": "number"}
    known = {**_nodes(kind, "spec"), **_nodes(kind, "status")}
    for column in kind.columns:
        path = column.path.removeprefix(".")
        if path.startswith("metadata."):
            continue
        if "conditions[?" in path:
            path = "status.conditions[].status"
        assert known[path]["type"] == types[column.type], column
