"""A kind's CustomResourceDefinition."""

from typing import Any

from rowen.crds.definition.schema import Schema, structural_schema
from rowen.crds.kinds import Column, Kind
from rowen.crds.names import CATEGORY, GROUP, VERSION

_API_VERSION = {"description": "Version of the API, rowen.dev/v1alpha1.", "type": "string"}
_KIND = {"description": "Kind of the object.", "type": "string"}


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
            "labelSelectorPath": kind.scale.selector,
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "rowen"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": [kind.short_name],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": object_schema(kind)},
                    "subresources": subresources,
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                }
            ],
        },
    }


def object_schema(kind: Kind) -> Schema:
    """The structural schema of a kind's objects."""
    spec = structural_schema(kind.spec, defaults=True)
    optional = "required" not in spec and "x-kubernetes-validations" not in spec
    return {
        "description": kind.description,
        "type": "object",
        **kind.validations(),
        **({} if optional else {"required": ["spec"]}),
        "properties": {
            "apiVersion": _API_VERSION,
            "kind": _KIND,
            "metadata": {"type": "object"},
            "spec": {**spec, "default": {}} if optional else spec,
            "status": structural_schema(kind.status, defaults=False),
        },
    }


def _column(column: Column) -> dict[str, Any]:
    result: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**result, "priority": 1} if column.wide else result
