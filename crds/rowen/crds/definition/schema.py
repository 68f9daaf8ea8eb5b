"""From a pydantic model to a structural OpenAPI v3 schema, as CustomResourceDefinitions want it.

Kubernetes refuses references, unions and JSON Schema's newer keywords; here they are resolved, so that the
models can be written as plain pydantic.
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_INT32_MAX = 2**31 - 1
_DROPPED = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "default", "examples", "readOnly", "title"}
)


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Schema:
    """The structural schema of a model.

    With `defaults`, the API server fills absent fields: right for a spec, wrong for a status, whose absent
    fields mean "not observed". Raises `ValueError` for a union that no structural schema can express.
    """
    document = model.model_json_schema(by_alias=True, mode="serialization")
    return _convert(document, document.get("$defs", {}), defaults)


def walk(schema: Schema, visit: Callable[[str, Schema], None], path: str = "") -> None:
    """Calls `visit(path, schema)` for a structural schema and everything in it, outermost first."""
    visit(path, schema)
    for name, child in schema.get("properties", {}).items():
        walk(child, visit, f"{path}.{name}" if path else name)
    if "items" in schema:
        walk(schema["items"], visit, f"{path}[]")


def _convert(node: Schema, definitions: dict[str, Schema], defaults: bool) -> Schema:
    node = _resolve(node, definitions)
    result: Schema = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in node:
        result["enum"] = [node["const"]]
    _bounds(result)
    if result.get("x-kubernetes-int-or-string"):
        result.pop("type")
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    if "properties" in node:
        _convert_properties(result, node["properties"], definitions, defaults)
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _convert(node["additionalProperties"], definitions, defaults)
    if "items" in node:
        result["items"] = _convert(node["items"], definitions, defaults)
    default = node.get("default")
    if defaults and default is not None:
        result["default"] = {} if "properties" in result else default
    return _ordered(result)


def _convert_properties(result: Schema, properties: Schema, definitions: dict[str, Schema], defaults: bool) -> None:
    result["properties"] = {name: _convert(child, definitions, defaults) for name, child in properties.items()}
    derived = {name for name, child in properties.items() if child.get("readOnly")}
    required = [name for name in result.pop("required", []) if name not in derived]
    if required:
        result["required"] = required


def _resolve(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Merges what a reference or an optional points to with what stands beside it."""
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise ValueError(f"a structural schema has no unions: {node}")
        return _resolve(_merge(options[0], {key: value for key, value in node.items() if key != "anyOf"}), definitions)
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        return _resolve(_merge(target, {key: value for key, value in node.items() if key != "$ref"}), definitions)
    return node


def _merge(inner: Schema, outer: Schema) -> Schema:
    """`outer` wins; the field's description comes before its type's."""
    descriptions = [part for part in (outer.get("description"), inner.get("description")) if part]
    merged = {**inner, **outer}
    if descriptions:
        merged["description"] = " ".join(descriptions)
    return merged


def _bounds(schema: Schema) -> None:
    """OpenAPI v3 has boolean exclusive bounds; integers say how wide they are."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            schema[bound] = schema[exclusive]
            schema[exclusive] = True
    if schema.get("type") == "integer":
        schema["format"] = "int32" if schema.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"


def _ordered(schema: Schema) -> Schema:
    """Description first, children last: so that the YAML reads well."""
    first = ("description", "type", "format")
    last = ("required", "properties", "additionalProperties", "items")
    middle = sorted(key for key in schema if key not in first and key not in last)
    return {key: schema[key] for key in (*first, *middle, *last) if key in schema}
