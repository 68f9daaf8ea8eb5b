"""When the nodes' agents were heard last, as far as a user may read their Leases."""

from collections.abc import Mapping
from typing import Any

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import LEASES
from rowen.kube.objects import list_all
from rowen.kube.timestamps import unix_seconds
from rowen.scheduler.cli.session import FORBIDDEN, LIMIT_SECONDS


async def heartbeats(client: Client, namespace: str, now: float, unread: list[str]) -> dict[str, float]:
    """Seconds since each node's heartbeat came in; what could not be read is told in `unread`. Raises `KubeError`."""
    try:
        leases = await list_all(client, LEASES, namespace=namespace, most_seconds=LIMIT_SECONDS)
    except RefusedError as error:
        if error.status != FORBIDDEN:
            raise
        unread.append(f"heartbeats: {error}")
        return {}
    if not leases:
        unread.append(f"heartbeats: there is no Lease in namespace {namespace}; --agent-namespace names another one")
    found = {raw["metadata"]["name"]: _accepted(raw) for raw in leases}
    return {node: max(0.0, now - accepted) for node, accepted in found.items() if accepted is not None}


def heartbeat_fields(node: str, heard: Mapping[str, float]) -> dict[str, Any]:
    """What a row tells of it: None where it is not known."""
    ago = heard.get(node)
    return {"heartbeatSecondsAgo": ago, "silent": None if ago is None else ago > NODE_LEASE_SECONDS}


def _accepted(lease: Raw) -> float | None:
    """When the API server took the last renewal: `renewTime` is by the node's clock, which may be wrong."""
    stamps = [entry["time"] for entry in lease["metadata"].get("managedFields") or () if entry.get("time")]
    try:
        return max(map(unix_seconds, stamps), default=None)
    except ValueError:
        return None
