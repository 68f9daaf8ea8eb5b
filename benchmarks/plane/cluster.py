"""What a cluster has before anybody works in it: rights, nodes, services and their engines' pods."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from plane.names import (
    AGENTS,
    DEVICES,
    NAMESPACE,
    NODES_OF_A_SERVICE,
    SLOTS,
    SYSTEM,
    USERS,
    engine_name,
    node_name,
    service_name,
)

from rowen.cluster.bare.server import BINARIES
from rowen.cluster.errors import ClusterError
from rowen.crds.names import API_VERSION, HARVEST_RESOURCE, ONLINE_RESOURCE, SERVICE_LABEL
from rowen.kube.client import Client
from rowen.kube.kinds import NAMESPACES, NODES, ONLINE_SERVICES, PODS
from rowen.kube.objects import apply, apply_status
from rowen.kube.resource import Resource

CHART = Path(__file__).parents[2] / "charts" / "rowen"
FLOW_SCHEMAS = Resource("FlowSchema", "flowcontrol.apiserver.k8s.io/v1", "flowschemas")
_RIGHTS = "rbac.authorization.k8s.io"
_MANAGER = "bench"
_AT_ONCE = 16

Raw = dict[str, Any]


async def furnish(client: Client, nodes: int) -> None:
    """Rights first, so that the parts can be started at once."""
    for name in (NAMESPACE, SYSTEM, AGENTS):
        await apply(client, NAMESPACES, _object("v1", "Namespace", name), manager=_MANAGER)
    for manifest in [*chart_rights(), *simulated_rights(), *flow_schemas()]:
        resource = Resource(manifest["kind"], manifest["apiVersion"], f"{manifest['kind'].lower()}s")
        await apply(client, resource, manifest, manager=_MANAGER)
    for number in range(0, nodes, NODES_OF_A_SERVICE):
        await apply(client, ONLINE_SERVICES, service(service_name(number)), manager=_MANAGER)
    await each(range(nodes), lambda number: _add_node(client, number))


async def each(numbers: range, work: Callable[[int], Awaitable[object]]) -> None:
    """The work for every number, a few at a time."""
    rest = iter(numbers)

    async def worker() -> None:
        for number in rest:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())


async def _add_node(client: Client, number: int) -> None:
    name = node_name(number)
    await apply(client, NODES, _object("v1", "Node", name), manager=_MANAGER)
    # The node controller takes a new node's taint away once it is ready.
    merge = "application/merge-patch+json"
    await client.call("PATCH", NODES.path(None, name), body={"spec": {"taints": []}}, content_type=merge)
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": ""}
    slots = {HARVEST_RESOURCE: str(DEVICES * SLOTS)}
    status = _object("v1", "Node", name) | {"status": {"conditions": [ready], "allocatable": slots}}
    await apply_status(client, NODES, status, manager=_MANAGER)
    await apply(client, PODS, engine_pod(name, service_name(number)), manager=_MANAGER)
    running = _object("v1", "Pod", engine_name(name), NAMESPACE) | {"status": {"phase": "Running"}}
    await apply_status(client, PODS, running, manager=_MANAGER)


def service(name: str) -> Raw:
    """An OnlineService that lets itself be harvested."""
    spec = {
        "engine": {"model": {"claimName": "models", "path": "m"}},
        "slo": {"ttft": {"target": "1s"}, "tpot": {"target": "100ms"}},
        "harvest": {"enabled": True},
    }
    return _object(API_VERSION, "OnlineService", name, NAMESPACE) | {"spec": spec}


def engine_pod(node: str, of_service: str) -> Raw:
    """An engine on all devices of its node."""
    limits = {"memory": "40Gi", ONLINE_RESOURCE: str(DEVICES)}
    containers = [{"name": "engine", "image": "none", "resources": {"limits": limits}}]
    pod = _object("v1", "Pod", engine_name(node), NAMESPACE) | {"spec": {"nodeName": node, "containers": containers}}
    pod["metadata"]["labels"] = {SERVICE_LABEL: of_service}
    return pod


def chart_rights() -> list[Raw]:
    """What the chart gives operator and scheduler, and no more. Raises `ClusterError`."""
    command = [
        str(BINARIES / "helm"), "template", "rowen", str(CHART), "--namespace", SYSTEM, "--kube-version", "1.34.0",
        "--show-only", "templates/operator/rbac.yaml", "--show-only", "templates/scheduler/rbac.yaml",
    ]  # fmt: skip
    try:
        rendered = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout
    except FileNotFoundError as error:
        raise ClusterError(f"no helm in {BINARIES}: `make tools` makes it") from error
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"the chart cannot be rendered: {error.stderr.strip()}") from error
    return [manifest for manifest in yaml.safe_load_all(rendered) if manifest]


def simulated_rights() -> Iterator[Raw]:
    """The simulated parts may do anything, but are not beyond the API server's fair queues, as its masters are."""
    for part in ("agents", "kubelets"):
        yield _object(f"{_RIGHTS}/v1", "ClusterRoleBinding", USERS[part]) | {
            "roleRef": {"apiGroup": _RIGHTS, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": _RIGHTS, "kind": "User", "name": USERS[part]}],
        }


def flow_schemas() -> Iterator[Raw]:
    """One for each part, in the level that service accounts have anyway: so its requests are counted apart."""
    rules = {
        "resourceRules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}
        ],
        "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
    }
    for part, user in USERS.items():
        subjects = [{"kind": "User", "user": {"name": user}}]
        yield _object(FLOW_SCHEMAS.api_version, "FlowSchema", f"bench-{part}") | {
            "spec": {
                "priorityLevelConfiguration": {"name": "workload-low"},
                "matchingPrecedence": 100,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [rules | {"subjects": subjects}],
            }
        }


def _object(version: str, kind: str, name: str, namespace: str | None = None) -> Raw:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
