"""What the objects of a cluster say, as far as a user may read them."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rowen.crds.common import find_condition
from rowen.crds.harvest.node_harvest import NodeHarvestStatus, OfflineTenant
from rowen.crds.job.offline_job_status import CO_SERVE, OfflineJobStatus
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import LEASES, NAMESPACES, NODE_HARVESTS, OFFLINE_JOBS, ONLINE_SERVICES
from rowen.kube.objects import NOT_FOUND, get, list_all
from rowen.kube.resource import Resource
from rowen.kube.timestamps import unix_seconds
from rowen.scheduler.cli.heartbeats import heartbeat_fields, heartbeats
from rowen.scheduler.cli.lookup import left_alone
from rowen.scheduler.cli.session import FORBIDDEN, LIMIT_SECONDS, CommandError, not_installed

_COMPONENTS = ("scheduler", "operator")

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class Scope:
    """Which namespaces are looked at."""

    namespace: str | None = None
    """One of them."""
    all: bool = False
    """All, and nothing else will do; without both all, or the context's where that is not allowed."""
    system: str = "rowen-system"
    """Where operator and scheduler are."""
    agents: str = "rowen-agent"
    """Where the agents are."""


@dataclass
class Overview:
    """The cluster, in a few figures. What could not be read is told in `unread`."""

    namespace: str | None = None
    """Where jobs and services are from; None: everywhere."""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    """How many, by state."""
    services: list[dict[str, Any]] = field(default_factory=list)
    leaders: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


async def overview(client: Client, scope: Scope, now: float) -> Overview:
    """Everything that may be read.

    Raises `CommandError` where the namespace of the scope is known not to be there, and `KubeError` where nothing may
    be read.
    """
    namespace, jobs = await _jobs(client, scope)
    unread: list[str] = []

    async def listed(resource: Resource, where: str | None) -> list[Raw]:
        try:
            return await list_all(client, resource, namespace=where, most_seconds=LIMIT_SECONDS)
        except RefusedError as error:
            if error.status != FORBIDDEN:
                raise
            unread.append(str(error))
            return []

    services, harvests = await asyncio.gather(listed(ONLINE_SERVICES, namespace), listed(NODE_HARVESTS, None))
    if scope.namespace is not None and not jobs and not services:
        await _check(client, scope.namespace)
    heard = await heartbeats(client, scope.agents, now, unread) if harvests else {}
    leaders = {name: await _leader(client, scope.system, f"rowen-{name}", now, unread) for name in _COMPONENTS}
    return Overview(
        namespace=namespace,
        nodes=[_node(raw, heard, now) for raw in sorted(harvests, key=_key)],
        jobs=dict(sorted(Counter(map(_state, jobs)).items())),
        services=[_service(raw) for raw in sorted(services, key=_key)],
        leaders=leaders,
        unread=unread,
    )


async def devices(client: Client, node: str | None, agents: str, now: float) -> list[dict[str, Any]]:
    """Every device of every node, or of one; the heartbeats are in the namespace `agents`.

    Raises `CommandError` where that node has no report, and `KubeError`.
    """
    if node is None:
        found = await list_all(client, NODE_HARVESTS, most_seconds=LIMIT_SECONDS)
    else:
        found = [await _harvest(client, node)]
    heard = await heartbeats(client, agents, now, [])
    return [entry for raw in sorted(found, key=_key) for entry in _devices(raw, heard, now)]


async def _harvest(client: Client, node: str) -> Raw:
    try:
        return await get(client, NODE_HARVESTS, None, node)
    except RefusedError as error:
        if error.status != NOT_FOUND or not_installed(error):
            raise
        raise CommandError(f"there is no NodeHarvest {node}; `kubectl get nodeharvests` lists all") from error


async def _jobs(client: Client, scope: Scope) -> tuple[str | None, list[Raw]]:
    if scope.namespace is None:
        try:
            return None, await list_all(client, OFFLINE_JOBS, most_seconds=LIMIT_SECONDS)
        except RefusedError as error:
            if scope.all or error.status != FORBIDDEN:
                raise
    where = scope.namespace or client.namespace
    return where, await list_all(client, OFFLINE_JOBS, namespace=where, most_seconds=LIMIT_SECONDS)


async def _check(client: Client, namespace: str) -> None:
    """Of a namespace that is not there every list is empty. Raises `CommandError`; not where it may not be read."""
    try:
        await get(client, NAMESPACES, None, namespace)
    except RefusedError as error:
        if error.status == NOT_FOUND:
            raise CommandError(f"there is no namespace {namespace}") from error
        if error.status != FORBIDDEN:
            raise


async def _leader(client: Client, namespace: str, name: str, now: float, unread: list[str]) -> str:
    try:
        spec = (await get(client, LEASES, namespace, name)).get("spec") or {}
    except RefusedError as error:
        if error.status == FORBIDDEN:
            unread.append(str(error))
            return "not known"
        if error.status != NOT_FOUND:
            raise
        return f"nobody: there is no lease {namespace}/{name}"
    holder, renewed = str(spec.get("holderIdentity") or ""), _age(spec.get("renewTime"), now)
    if not holder:
        return "nobody: the lease was given back"
    if renewed is not None and renewed > float(spec.get("leaseDurationSeconds") or 0):
        return f"nobody: {holder} renewed the lease last {renewed:.0f} s ago"
    return holder


def _age(stamp: object, now: float) -> float | None:
    try:
        return max(0.0, now - unix_seconds(str(stamp))) if stamp else None
    except ValueError:
        return None


def _key(raw: Raw) -> tuple[str, str]:
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def _read(model: type[S], raw: Raw) -> S | None:
    """The status; None where it is of a release that this one does not understand."""
    try:
        return model.model_validate(raw.get("status") or {})
    except ValidationError:
        return None


def _state(raw: Raw) -> str:
    if left_alone(raw["spec"]):
        return "managed by others"
    status = _read(OfflineJobStatus, raw)
    return "not understood" if status is None else status.state or "New"


def _node(raw: Raw, heard: Mapping[str, float], now: float) -> dict[str, Any]:
    node, status = raw["metadata"]["name"], _read(NodeHarvestStatus, raw)
    if status is None:
        return {"name": node, "problem": "its report is not understood"}
    summary = status.summary
    return {
        "name": node,
        "devices": summary.devices,
        "harvestable": summary.harvestable,
        "idle": summary.idle,
        "harvested": summary.harvested,
        "tenants": summary.tenants,
        "lent": summary.lent,
        **heartbeat_fields(node, heard),
        "reportedSecondsAgo": _age(status.update_time, now),
    }


def _service(raw: Raw) -> dict[str, Any]:
    namespace, name = _key(raw)
    status = _read(OnlineServiceStatus, raw) or OnlineServiceStatus()
    met = find_condition(status.conditions, "SLOMet")
    harvest = find_condition(status.conditions, "HarvestEnabled")
    return {
        "namespace": namespace,
        "name": name,
        "replicas": status.replicas,
        "ready": status.ready_replicas,
        "sloMet": met.status if met else "Unknown",
        "ttft": status.ttft.display if status.ttft else None,
        "tpot": status.tpot.display if status.tpot else None,
        "mode": (raw["spec"].get("harvest") or {}).get("mode"),
        "harvest": harvest.status if harvest else "Unknown",
        "harvested": status.harvested,
    }


def _tenant(tenant: OfflineTenant) -> str:
    return f"{tenant.pod.namespace}/{tenant.job or tenant.pod.name}"


def _may_share(tenant: OfflineTenant, pods: Mapping[str, int]) -> bool:
    """Whether it goes on beside requests where its device is open at a share; one on several of the `pods` does not."""
    return tenant.mode != CO_SERVE and pods[str(tenant.pod)] == 1


def _devices(raw: Raw, heard: Mapping[str, float], now: float) -> list[dict[str, Any]]:
    node, status = raw["metadata"]["name"], _read(NodeHarvestStatus, raw)
    if status is None:
        return [{"node": node, "problem": "its report is not understood"}]
    reported = _age(status.update_time, now)
    pods = Counter(str(tenant.pod) for device in status.devices for tenant in device.tenants)
    return [
        {
            "node": node,
            "device": device.id,
            "type": device.type,
            "harvestable": device.harvestable,
            "idle": device.idle_fraction,
            "harvested": device.harvested_fraction,
            "memoryBytes": device.memory_bytes,
            "pool": device.pool.to_wire() if device.pool else None,
            "service": f"{device.online.pod.namespace}/{device.online.service or device.online.pod.name}"
            if device.online
            else None,
            "tenants": [_tenant(each) for each in device.tenants],
            "riders": [_tenant(each) for each in device.tenants if each.mode == CO_SERVE],
            "sharers": [_tenant(each) for each in device.tenants if device.spatial and _may_share(each, pods)],
            "coServing": device.co_serving.to_wire() if device.co_serving else None,
            "spatial": device.spatial.to_wire() if device.spatial else None,
            **heartbeat_fields(node, heard),
            "reportedSecondsAgo": reported,
        }
        for device in status.devices
    ]
