"""Plays node agents, kubelets and users against a real API server."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from beats import beating

from rowen.crds.names import API_VERSION, ASSIGNMENT_ANNOTATION, HARVEST_RESOURCE, JOB_UID_LABEL, OPERATOR_MANAGER
from rowen.kube.client import Client
from rowen.kube.heartbeat import beat_manifest
from rowen.kube.kinds import LEASES, NODE_HARVESTS, NODES, OFFLINE_JOBS, ONLINE_SERVICES
from rowen.kube.objects import apply, apply_status, delete, get, list_all
from rowen.kube.resource import Resource
from rowen.kube.timestamps import rfc3339
from rowen.scheduler.loop import Loop
from rowen.scheduler.policy import Policy

MANAGER = "test"
_WAIT_SECONDS = 30.0


class Clock:
    """A clock that runs with the real one and can be moved ahead."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset


class Stage:
    """One namespace with nodes of its own. Pools are so small that no other test's job fits."""

    def __init__(self, client: Client, namespace: str, clock: Clock, agents: str = "") -> None:
        """The nodes' heartbeats are in the namespace `agents`; without one in the stage's own."""
        self.client, self.namespace, self.clock = client, namespace, clock
        self.agents = agents or namespace
        self._made: list[tuple[str, str, str | None]] = []

    async def alone(self) -> None:
        """Takes away the jobs that other tests have left behind: a scheduler sees the whole cluster."""
        for job in await list_all(self.client, OFFLINE_JOBS):
            meta = job["metadata"]
            await self.delete(API_VERSION, f"offlinejobs/{meta['name']}", meta["namespace"])

    async def make(self, manifest: dict[str, Any], plural: str) -> dict[str, Any]:
        meta = manifest["metadata"]
        self._made.append((manifest["apiVersion"], f"{plural}/{meta['name']}", meta.get("namespace")))
        resource = Resource(manifest["kind"], manifest["apiVersion"], plural)
        return await apply(self.client, resource, manifest, manager=MANAGER)

    async def service(self, name: str = "chat", *, harvest: bool = True) -> None:
        spec = {
            "engine": {"model": {"claimName": "models", "path": "m"}},
            "slo": {"ttft": {"target": "1s"}, "tpot": {"target": "1s"}},
            "harvest": {"enabled": harvest},
        }
        await self.make(self._object("OnlineService", name, spec), "onlineservices")

    async def guard(self, level: str, name: str = "chat") -> None:
        """The operator's SLO guard has taken a step."""
        status = {"harvestGuard": {"level": level, "since": rfc3339(time.time())}}
        manifest = {**self._object("OnlineService", name, {}), "status": status}
        await apply_status(self.client, ONLINE_SERVICES, manifest, manager=OPERATOR_MANAGER)

    async def node(self, name: str, *, slots: int = 2, taints: Sequence[dict[str, str]] = ()) -> str:
        """A Ready node with an online pod and a first report; returns its unique name."""
        full = f"{name}-{uuid.uuid4().hex[:6]}"
        await self.make({"apiVersion": "v1", "kind": "Node", "metadata": {"name": full}}, "nodes")
        await self._taint(full, taints)
        now = rfc3339(time.time())
        ready = {
            "type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }  # fmt: skip
        status = {"conditions": [ready], "allocatable": {HARVEST_RESOURCE: str(slots)}}
        await apply_status(
            self.client,
            NODES,
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": full}, "status": status},
            manager=MANAGER,
        )
        await self.pod(f"online-{full}", full, memory="1Mi")
        await self.harvest(full)
        return full

    async def harvest(self, node: str) -> None:
        """The node's NodeHarvest with a report, made where it is missing."""
        await self.make({"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": node}}, "nodeharvests")
        await self.report(node)

    async def remove(self, node: str) -> None:
        """Takes the node away with all that tells of it."""
        await self.delete("v1", f"nodes/{node}", None)
        await self.delete(API_VERSION, f"nodeharvests/{node}", None)
        await self.delete(LEASES.api_version, f"leases/{node}", self.agents)

    async def _taint(self, node: str, taints: Sequence[dict[str, str]]) -> None:
        """Sets the taints; that of a new node goes, as the node controller takes it away once the node is Ready."""
        body, merge = {"spec": {"taints": list(taints)}}, "application/merge-patch+json"
        await self.client.call("PATCH", NODES.path(None, node), body=body, content_type=merge)

    async def pod(self, name: str, node: str, *, memory: str, job: dict[str, Any] | None = None) -> None:
        """A bound pod; with `job` that of its present assignment."""
        meta: dict[str, Any] = {"name": name, "namespace": self.namespace}
        limits = {"memory": memory}
        if job is not None:
            meta["labels"] = {JOB_UID_LABEL: job["metadata"]["uid"]}
            meta["annotations"] = {ASSIGNMENT_ANNOTATION: job["status"]["assignment"]["id"]}
            limits[HARVEST_RESOURCE] = "1"
        container = {
            "name": "main", "image": "none", "resources": {"limits": limits},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }  # fmt: skip
        security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {"nodeName": node, "containers": [container], "securityContext": security}
        await self.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "pods")

    async def report(self, node: str, *, idle: float = 0.8, tenants: list[dict[str, Any]] | None = None) -> None:
        """What the node's agent writes, dated by the stage's clock."""
        device = {
            "id": "cpu0", "type": "cpu", "memoryBytes": 129 * 2**20, "harvestable": True, "gateOpen": True,
            "idleFraction": idle, "harvestedFraction": 0.0, "preemptions": 0, "tenants": tenants or [],
            "online": {
                "pod": f"{self.namespace}/online-{node}", "service": "chat",
                "attached": True,
            },
        }  # fmt: skip
        status = {"updateTime": rfc3339(self.clock(), "microseconds"), "backend": "cpu", "devices": [device]}
        manifest = {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": node}, "status": status}
        await apply_status(self.client, NODE_HARVESTS, manifest, manager=MANAGER)

    async def beat(self, node: str) -> None:
        """The node's heartbeat, dated by the stage's clock."""
        await apply(self.client, LEASES, beat_manifest(self.agents, node, "agent", self.clock()), manager=MANAGER)

    def alive(self, node: str) -> AbstractAsyncContextManager[None]:
        """The node renews its heartbeat all the time."""
        return beating(lambda: self.beat(node))

    def tenant(self, pod: str, tokens: int, granted: float) -> dict[str, Any]:
        """A pod's entry in a report."""
        return {
            "pod": f"{self.namespace}/{pod}", "attached": True, "tokens": tokens,
            "grantedSeconds": granted,
        }  # fmt: skip

    async def job(self, name: str, **spec: Any) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
        body = {"template": template, "memory": "64Mi", "priority": 1000, **spec}
        await self.make(self._object("OfflineJob", name, body), "offlinejobs")

    async def tuning(self, name: str, **spec: Any) -> None:
        """A fine-tuning job: its worker reports tokens."""
        tune = {
            "baseModel": {"claimName": "models", "path": "m"},
            "dataset": {"claimName": "data", "path": "d.jsonl"},
            "output": {"claimName": "data", "path": "out"},
        }
        body = {"fineTune": tune, "memory": "64Mi", "priority": 1000, **spec}
        await self.make(self._object("OfflineJob", name, body), "offlinejobs")

    async def not_started(self, name: str, cause: str = "Job") -> None:
        """What the operator tells when no pod can be started on the present assignment."""
        assignment = (await self.get_job(name))["status"]["assignment"]["id"]
        failure = {"assignment": assignment, "reason": "ImagePullBackOff", "message": "no such image", "cause": cause}
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "OfflineJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "status": {"startFailure": failure},
        }
        await apply_status(self.client, OFFLINE_JOBS, manifest, manager=OPERATOR_MANAGER)

    def _object(self, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}

    async def get_job(self, name: str) -> dict[str, Any]:
        return await get(self.client, OFFLINE_JOBS, self.namespace, name)

    async def await_job(self, name: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The job, once the predicate holds of its status."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            found = await self.get_job(name)
            if holds(found.get("status") or {}):
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"{name} did not get there: {found.get('status')}")

    async def delete(self, version: str, url: str, namespace: str | None) -> None:
        plural, _, name = url.partition("/")
        await delete(self.client, Resource("", version, plural), namespace, name, grace_seconds=0)

    async def clear(self) -> None:
        for version, url, namespace in reversed(self._made):
            await self.delete(version, url, namespace)

    async def heard(self, loop: Loop, node: str, since: float) -> None:
        """Waits until the scheduler has heard the node after that time, Unix seconds."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            snapshot = loop.snapshot()
            heard = snapshot.nodes[node].heard if snapshot and node in snapshot.nodes else None
            if heard is not None and heard > since:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{node} was not heard")

    @contextlib.asynccontextmanager
    async def scheduler(self, policy: Policy) -> AsyncIterator[Loop]:
        """A running scheduler whose own namespace is the stage's."""
        loop = Loop(self.client, self.namespace, self.agents, policy, self.clock)
        task = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    """The condition of that type; empty when there is none."""
    return next((entry for entry in status.get("conditions", []) if entry["type"] == type_), {})
