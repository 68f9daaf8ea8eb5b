"""The API server, as far as the agent needs it: its own NodeHarvest and its own node's pods."""

from typing import Any

from kr8s.asyncio import Api

from rowen.crds.apply import apply, apply_status
from rowen.crds.names import AGENT_MANAGER, API_VERSION
from rowen.crds.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.node_agent.pods import PodView, pod_view

_TIMEOUT = 5.0


class Cluster:
    """Reads and writes for one node. All methods raise `kr8s` and `httpx` errors."""

    def __init__(self, api: Api, node: str) -> None:
        self._api = api
        self._node = node

    def _object(self, **rest: Any) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": self._node}, **rest}

    async def ensure(self) -> NodeHarvestSpec:
        """Makes the NodeHarvest where it is missing; returns its spec."""
        stored = await apply(self._api, self._object(spec={}), manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT)
        return NodeHarvestSpec.model_validate(stored.get("spec") or {})

    async def report(self, status: NodeHarvestStatus) -> None:
        """Writes the status."""
        manifest = self._object(status=status.to_wire())
        await apply_status(self._api, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT)

    async def pods(self) -> list[PodView]:
        """The node's pods."""
        async with self._api.call_api(
            "GET",
            version="v1",
            url="pods",
            params={"fieldSelector": f"spec.nodeName={self._node}"},
            timeout=_TIMEOUT,
        ) as response:
            return [pod_view(pod) for pod in response.json()["items"]]
