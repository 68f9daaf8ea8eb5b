"""The API reference as Markdown."""

import json
from collections.abc import Iterable, Iterator

from rowen.crds.definition.manifest import object_schema
from rowen.crds.definition.schema import Schema, walk
from rowen.crds.kinds import Kind
from rowen.crds.names import API_VERSION

_INTRODUCTION = f"""# API reference: `{API_VERSION}`

Generated from the models in `crds/rowen/crds`; `kubectl explain KIND --recursive` says the same.
A field with a star is required. Rules are enforced by the API server.
"""


def reference(kinds: Iterable[Kind]) -> str:
    """Markdown text for all kinds."""
    return "\n".join([_INTRODUCTION, *(line for kind in kinds for line in _kind(kind))])


def _kind(kind: Kind) -> Iterator[str]:
    schema = object_schema(kind)
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    yield f"## {kind.name}\n"
    yield f"{kind.description} `{kind.plural}`, short `{kind.short_name}`, {scope}.\n"
    for part in ("spec", "status"):
        yield f"### {kind.name} `{part}`\n"
        yield f"{schema['properties'][part]['description']}\n"
        yield from _fields(schema["properties"][part])
    rules: list[str] = []
    walk(schema, lambda path, node: rules.extend(_rules(path, node)))
    if rules:
        yield f"### {kind.name} rules\n"
        yield from rules
        yield ""


def _fields(schema: Schema) -> Iterator[str]:
    rows: list[str] = []
    required: set[str] = set()

    def visit(path: str, node: Schema) -> None:
        required.update(f"{path}.{name}" if path else name for name in node.get("required", []))
        if path and not path.endswith("[]"):
            star = "\\*" if path in required else ""
            text = node.get("description", "").replace("|", "\\|")
            rows.append(f"| `{path}`{star} | {_type(node)} | {_limits(node)} | {text} |")

    walk(schema, visit)
    yield "| field | type | limits | meaning |\n|---|---|---|---|"
    yield from rows
    yield ""


def _type(node: Schema) -> str:
    return f"list of {_type(node['items'])}" if node["type"] == "array" else str(node.get("type", "integer or text"))


def _limits(node: Schema) -> str:
    parts = []
    if "enum" in node:
        parts.append(", ".join(f"`{value}`" for value in node["enum"]))
    if "minimum" in node:
        parts.append(f"{'>' if node.get('exclusiveMinimum') else '≥'} {node['minimum']}")
    if "maximum" in node:
        parts.append(f"{'<' if node.get('exclusiveMaximum') else '≤'} {node['maximum']}")
    if "pattern" in node:
        parts.append(f"`{node['pattern']}`".replace("|", "\\|"))
    if "default" in node and node["default"] != {}:
        parts.append(f"default `{json.dumps(node['default'])}`")
    return "; ".join(parts)


def _rules(path: str, node: Schema) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", []):
        yield f"- {f'`{path}`: ' if path else ''}{rule['message']}"
