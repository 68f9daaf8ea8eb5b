"""Whose an engine's pod is, as far as the pod itself tells. Pure."""

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]
_HASH_LABEL = "pod-template-hash"
_LONGEST_NAME, _LONGEST_PREFIX = 63, 58
"""Of a pod of a ReplicaSet: Kubernetes cuts what is longer, before five letters of its own."""


def may_own(kind: str, workload: str, pod: str) -> bool:
    """Whether a pod of that name may be one of a Deployment or StatefulSet of that name.

    `llm-b-5d4-x7abc` is none of the Deployment `llm`: each pod that may be one is asked for.
    """
    if len(pod) == _LONGEST_NAME:
        return pod.startswith(f"{workload}-"[:_LONGEST_PREFIX])
    rest = pod.removeprefix(f"{workload}-")
    return rest != pod and (rest.isdecimal() if kind == "StatefulSet" else rest.count("-") == 1)


def owns(workload: Manifest, pod: Manifest) -> bool:
    """Whether the pod is one of this Deployment or StatefulSet.

    A Deployment's pods belong to its ReplicaSets, which are named by it and by a label of theirs: so nobody has to read
    ReplicaSets.
    """
    metadata = pod["metadata"]
    controller = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if metadata["namespace"] != workload["metadata"]["namespace"] or controller is None:
        return False
    if not controller["apiVersion"].startswith("apps/"):
        return False
    if workload["kind"] == "StatefulSet":
        return bool(controller["kind"] == "StatefulSet" and controller["uid"] == workload["metadata"]["uid"])
    digest = (metadata.get("labels") or {}).get(_HASH_LABEL)
    name = f"{workload['metadata']['name']}-{digest}"
    return bool(digest and controller["kind"] == "ReplicaSet" and controller["name"] == name)
