"""A node's heartbeat: the coordination `Lease` of its name, which its agent renews.

It is judged by its change, on the reader's own clock: what time it carries only tells whether it has changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowen.crds.names import MANAGED_BY_LABEL, MANAGER, NODE_LEASE_SECONDS
from rowen.kube.kinds import LEASES
from rowen.kube.timestamps import rfc3339, unix_seconds

LABELS = {MANAGED_BY_LABEL: MANAGER, "app.kubernetes.io/component": "agent"}


@dataclass(frozen=True, slots=True)
class Beat:
    """A node's last heartbeat."""

    node: str
    renewed: float
    """By the node's own clock, Unix seconds."""


def read_beat(raw: Mapping[str, Any]) -> Beat | None:
    """Reads a Lease of the agents' namespace; None where it was never renewed. Raises `ValueError`."""
    renewed = (raw.get("spec") or {}).get("renewTime")
    return Beat(raw["metadata"]["name"], unix_seconds(renewed)) if renewed else None


def renewed_beat(stored: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The Lease as it was stored last, renewed at `now`, Unix seconds."""
    return {**stored, "spec": {**(stored.get("spec") or {}), "renewTime": rfc3339(now, "microseconds")}}


def beat_manifest(
    namespace: str, node: str, holder: str, now: float, owners: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """The Lease as the agent `holder` renews it at `now`, Unix seconds; it goes when its owners go."""
    metadata: dict[str, Any] = {"namespace": namespace, "name": node, "labels": LABELS}
    if owners:
        metadata["ownerReferences"] = [dict(owner) for owner in owners]
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": NODE_LEASE_SECONDS,
        "renewTime": rfc3339(now, "microseconds"),
    }
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
