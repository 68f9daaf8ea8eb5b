"""Plays Rowen's scheduler, kube-scheduler, kubelet and node agent against the test API server."""

import time
from typing import Any

import manifests
from manifests import apply, apply_status
from operator_builders import FINE_TUNE, placed
from operator_process import eventually

from rowen.kube.client import Client
from rowen.kube.timestamps import rfc3339
from rowen.operator.pods.security import container_security_context, pod_security_context

ROWEN = "rowen.dev/v1alpha1"


class FakeCluster:
    """One namespace as everybody but the operator sees it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create_job(self, name: str = "job", **spec: Any) -> None:
        """A fine-tuning job unless `spec` says otherwise."""
        work = {} if {"template", "batchInference"} & spec.keys() else {"fineTune": FINE_TUNE}
        await apply(self.client, self._manifest("OfflineJob", name, spec={**work, **spec}), manager="user")

    async def place(self, name: str = "job", id_: str = "a1", *, node: str = "node-1") -> None:
        """Rowen's scheduler assigns the job; the lease outlasts the test."""
        status = placed(id_, node=node, renewed=time.time(), made=time.time())
        status["assignment"]["lease"]["durationSeconds"] = 3600
        await apply_status(
            self.client, self._manifest("OfflineJob", name, status=status), manager="rowen.dev/scheduler"
        )

    async def evict(self, name: str = "job") -> None:
        """Rowen's scheduler withdraws the assignment."""
        conditions = [
            {
                "type": "Placed",
                "status": "False",
                "reason": "SLAViolated",
                "message": "",
                "lastTransitionTime": rfc3339(time.time()),
            }
        ]
        manifest = self._manifest("OfflineJob", name, status={"conditions": conditions})
        await apply_status(self.client, manifest, manager="rowen.dev/scheduler")

    async def job(self, name: str = "job") -> dict[str, Any] | None:
        """The job."""
        return await manifests.read(self.client, ROWEN, self.namespace, f"offlinejobs/{name}")

    async def pod(self, name: str) -> dict[str, Any] | None:
        """A pod."""
        return await manifests.read(self.client, "v1", self.namespace, f"pods/{name}")

    async def wait_pod(self, name: str) -> dict[str, Any]:
        """The pod, once it is there."""
        return await eventually(lambda: self.pod(name))

    async def wait_condition(
        self, type_: str, reason: str, *, name: str = "job", url: str = "offlinejobs"
    ) -> dict[str, Any]:
        """The object, once the condition has that reason."""

        async def look() -> dict[str, Any] | None:
            found = await manifests.read(self.client, ROWEN, self.namespace, f"{url}/{name}")
            return found if find(found, type_).get("reason") == reason else None

        return await eventually(look)

    async def create_foreign_pod(self, name: str) -> None:
        """A pod that has nothing to do with Rowen."""
        container = {"name": "c", "image": "i", "securityContext": container_security_context()}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"containers": [container], "securityContext": pod_security_context()},
        }
        await apply(self.client, manifest, manager="user")

    async def bind(self, pod: str, node: str = "node-1") -> None:
        """kube-scheduler binds the pod."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": self.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.client.call("POST", manifests.path("v1", self.namespace, f"pods/{pod}/binding"), body=binding)

    async def pod_status(self, pod: str, phase: str, state: dict[str, Any] | None = None, **more: Any) -> None:
        """The kubelet reports on the pod; `state` is its worker's."""
        statuses = (
            [{"name": "worker", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}]
            if state
            else []
        )
        await self.patch(f"pods/{pod}/status", {"status": {"phase": phase, "containerStatuses": statuses, **more}})

    async def run_pod(self, pod: str) -> None:
        """The kubelet runs the pod."""
        await self.bind(pod)
        await self.pod_status(pod, "Running", {"running": {"startedAt": rfc3339(time.time())}})

    async def end_pod(self, pod: str, exit_code: int, message: str = "", *, ago: float = 0.0) -> None:
        """The pod's worker ends."""
        terminated = {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "message": message,
            "startedAt": rfc3339(time.time() - ago - 1),
            "finishedAt": rfc3339(time.time() - ago),
        }
        await self.pod_status(pod, "Failed" if exit_code else "Succeeded", {"terminated": terminated})

    async def reap(self, pod: str) -> None:
        """The kubelet has stopped a pod whose deletion was asked for."""
        await self.delete(f"pods/{pod}", gracePeriodSeconds=0)

    async def patch(self, url: str, body: dict[str, Any], version: str = "v1") -> None:
        """A merge patch."""
        await manifests.patch(self.client, version, self.namespace, url, body)

    async def delete(self, url: str, version: str = "v1", **options: Any) -> None:
        """A deletion."""
        await manifests.delete(self.client, version, self.namespace, url, **options)

    async def events(self, name: str = "job") -> list[str]:
        """Reasons of the events about an object."""
        found = await manifests.read(self.client, "v1", self.namespace, "events")
        return [event["reason"] for event in (found or {})["items"] if event["involvedObject"]["name"] == name]

    def _manifest(self, kind: str, name: str, **parts: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": ROWEN, "kind": kind, "metadata": metadata, **parts}


def find(manifest: dict[str, Any] | None, type_: str) -> dict[str, Any]:
    """A condition of an object; empty where there is none."""
    conditions = ((manifest or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == type_), {})
