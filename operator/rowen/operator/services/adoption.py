"""Whose an engine's pod is, as far as the pod itself tells. Pure."""

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]
_HASH_LABEL = "pod-template-hash"
_LONGEST_PREFIX = 58
"""Kubernetes cuts a longer name where it makes a pod's name of it."""


def may_own(workload: str, pod: str) -> bool:
    """Whether a pod of that name may be one of a Deployment or StatefulSet of that name."""
    return pod.startswith(f"{workload}-"[:_LONGEST_PREFIX])


def owns(workload: Manifest, pod: Manifest) -> bool:
    """Whether the pod is one of this Deployment or StatefulSet.

    A Deployment's pods belong to its ReplicaSets, which are named by it and by a label of theirs: so nobody has to read
    ReplicaSets.
    """
    metadata = pod["metadata"]
    controllers = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    if metadata["namespace"] != workload["metadata"]["namespace"] or not controllers:
        return False
    controller, name = controllers[0], workload["metadata"]["name"]
    if not str(controller.get("apiVersion")).startswith("apps/"):
        return False
    if workload["kind"] == "StatefulSet":
        return bool(controller["kind"] == "StatefulSet" and controller["uid"] == workload["metadata"]["uid"])
    digest = (metadata.get("labels") or {}).get(_HASH_LABEL)
    return bool(digest and controller["kind"] == "ReplicaSet" and controller["name"] == f"{name}-{digest}")
