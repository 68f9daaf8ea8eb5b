"""The API server, as far as the agent needs it: its own NodeHarvest and its own node's pods."""

from datetime import UTC, datetime
from typing import Any

from kr8s.asyncio import Api

from rowen.crds.apply import apply, apply_status
from rowen.crds.names import AGENT_MANAGER, API_VERSION
from rowen.crds.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.node_agent.kubelet.pods import PodView, pod_view

_TIMEOUT = 5.0
_LONGEST_MESSAGE = 1024
_COMPONENT = "rowen.dev/agent"


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

    async def event(self, pod: PodView, reason: str, message: str) -> None:
        """Tells a pod's users what became of it. Raises `OSError` when the API server refuses it."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "source": {"component": _COMPONENT, "host": self._node},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        async with self._api.call_api(
            "POST",
            version="v1",
            url="events",
            namespace=pod.namespace,
            json=manifest,
            timeout=_TIMEOUT,
            # kr8s closes the connections of all calls when one of them is forbidden.
            raise_for_status=False,
        ) as response:
            if response.is_error:
                raise OSError(f"the API server answered {response.status_code}")

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
