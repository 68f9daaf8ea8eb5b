"""Agents of the last release, beside definitions of this one: an upgrade installs the definitions first."""

from typing import Any

from rowen.crds.names import AGENT_MANAGER, API_VERSION
from rowen.crds.node_harvest import NodeHarvestStatus
from rowen.kube.client import Client
from rowen.kube.kinds import NODE_HARVESTS
from rowen.kube.objects import apply, apply_status

LATENCY = {"count": 3, "p50": 0.1, "p90": 0.2, "p95": 0.2, "p99": 0.2, "max": 0.2}
DEVICE: dict[str, Any] = {
    "id": "d0",
    "type": "cpu",
    "memoryBytes": 8 << 30,
    "harvestable": True,
    "gateOpen": True,
    "idleFraction": 0.75,
    "harvestedFraction": 0.5,
    "decodeGapSeconds": 0.01,
    "cooldownSeconds": 0.02,
    "busyIntervals": [{"start": 1767225540.5, "end": 1767225541.25}],
    "preemptions": {"total": 5, "latency": LATENCY, "perRequestMax": 1},
    "memory": {
        "seconds": 60.0,
        "availableBytes": [1 << 30] * 16 + [3 << 30] * 16,
        "deficits": [{"bytes": 3 << 30, "fraction": 0.5, "meanSeconds": 15.0}],
        "usedBytes": 2 << 30,
        "headroomBytes": 1 << 30,
        "reclaims": 2,
        "tokensLost": 640,
    },
    "pool": {
        "fixedBytes": 2 << 30,
        "onlineUsedBytes": 2 << 30,
        "onlineAheadBytes": 1 << 30,
        "offlineBytes": 2 << 30,
        "freeBytes": 1 << 30,
    },
    "online": {
        "pod": {"namespace": "shop", "name": "chat-0"},
        "service": "chat",
        "attached": True,
        "inFlight": 1,
        "ttft": LATENCY,
        "tpot": LATENCY,
    },
    "tenants": [
        {
            "pod": {"namespace": "lab", "name": "tune-0"},
            "job": "tune",
            "attached": True,
            "completed": 4,
            "total": 10,
            "tokens": 400,
            "grantedSeconds": 7.5,
            "preemptions": 5,
            "backstops": 0,
        }
    ],
}
STATUS: dict[str, Any] = {
    "updateTime": "2026-01-01T00:00:00.250Z",
    "backend": "cpu",
    "devices": [DEVICE],
    "summary": {
        "devices": 1,
        "harvestable": 1,
        "tenants": 1,
        "preemptions": 5,
        "idle": "75%",
        "harvested": "50%",
        "memory": "8Gi",
        "pool": "6Gi",
        "lent": "2Gi",
    },
}
"""A whole report of the last release, which looks at the same things: every field that it writes."""


async def test_a_report_of_the_last_release_is_taken_as_it_is(kube: Client, namespace: str) -> None:
    head = {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": f"node-of-{namespace}"}}
    await apply(kube, NODE_HARVESTS, {**head, "spec": {}}, manager=AGENT_MANAGER)
    stored = await apply_status(kube, NODE_HARVESTS, {**head, "status": STATUS}, manager=AGENT_MANAGER)
    assert stored["status"] == STATUS
    (read,) = NodeHarvestStatus.from_wire(stored["status"]).devices
    assert read.memory is not None
    assert read.memory.mean(float) == 2 << 30
