"""The API server, as far as the agent needs it: its own NodeHarvest and its own node's pods."""

import time
from typing import Any

from rowen.crds.names import AGENT_MANAGER, API_VERSION
from rowen.crds.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.kube.client import Client
from rowen.kube.kinds import NODE_HARVESTS, PODS
from rowen.kube.objects import apply, apply_status, list_all, post_event
from rowen.node_agent.kubelet.pods import PodView, pod_view

_TIMEOUT_SECONDS = 5.0
"""A slow API server costs a report, not the node's lease."""


class Cluster:
    """Reads and writes for one node. All methods raise `KubeError`."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node

    def _object(self, **rest: Any) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": self._node}, **rest}

    async def ensure(self) -> NodeHarvestSpec:
        """Makes the NodeHarvest where it is missing; returns its spec."""
        manifest = self._object(spec={})
        stored = await apply(
            self._client, NODE_HARVESTS, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS
        )
        return NodeHarvestSpec.model_validate(stored.get("spec") or {})

    async def report(self, status: NodeHarvestStatus) -> None:
        """Writes the status."""
        manifest = self._object(status=status.to_wire())
        await apply_status(
            self._client, NODE_HARVESTS, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS
        )

    async def event(self, pod: PodView, reason: str, message: str) -> None:
        """Tells a pod's users what became of it; that they know already is no error."""
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        owner = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        now = time.time()
        await post_event(
            self._client, owner, type="Warning", reason=reason, message=message, component=AGENT_MANAGER, now=now
        )

    async def pods(self) -> list[PodView]:
        """The node's pods."""
        selector = f"spec.nodeName={self._node}"
        found = await list_all(self._client, PODS, field_selector=selector, most_seconds=_TIMEOUT_SECONDS)
        return [pod_view(pod) for pod in found]
