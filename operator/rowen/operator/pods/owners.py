"""Owner references: children go with their owner."""

from collections.abc import Mapping
from typing import Any

from rowen.crds.names import API_VERSION, MANAGED_BY_LABEL, MANAGER

MANAGED_BY = {MANAGED_BY_LABEL: MANAGER}
"""On every child; the operator watches pods and services by it."""


def owner_reference(kind: str, name: str, uid: str) -> dict[str, Any]:
    """The controlling owner of a child."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(manifest: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Kind, name and uid of the Rowen object that controls this one, or None."""
    for reference in manifest["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("apiVersion") == API_VERSION:
            return reference["kind"], reference["name"], reference["uid"]
    return None
