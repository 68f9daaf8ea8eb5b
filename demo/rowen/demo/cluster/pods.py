"""One-off pods of the demo: they see the volumes, which the host may not."""

import json
import time
from dataclasses import dataclass

from rich.console import Console

from rowen.crds.names import VOLUMES_DIRECTORY
from rowen.demo.cluster.kubectl import Cluster, Object, kubectl
from rowen.demo.cluster.readiness import pod_trouble, wait_for
from rowen.demo.errors import DemoError

_USER = 65532
_CONTAINER = "demo"


@dataclass(frozen=True)
class OneOff:
    """A pod that runs one command to its end."""

    name: str
    image: str
    script: str
    """Shell script."""
    claims: tuple[str, ...]
    """Claims mounted at /volumes/CLAIM."""
    memory: str
    take_ownership: bool = False
    """Hand the volumes' roots to the workers' user first; for hostPath volumes, whose owner is root."""


def manifest(pod: OneOff, namespace: str) -> Object:
    """The pod. Only the ownership step, where asked for, runs as root."""
    mounts = [{"name": claim, "mountPath": f"{VOLUMES_DIRECTORY}/{claim}"} for claim in pod.claims]
    scratch = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - inside the pod
    container = {
        "name": _CONTAINER,
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-ec", pod.script],
        "env": [{"name": name, "value": value} for name, value in _ENVIRONMENT.items()],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": pod.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [*mounts, scratch],
    }
    volumes: list[Object] = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in pod.claims]
    spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
    }
    if pod.take_ownership:
        spec["initContainers"] = [_ownership(pod, mounts)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "rowen-demo"}},
        "spec": spec,
    }


_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}


def _ownership(pod: OneOff, mounts: list[Object]) -> Object:
    folders = " ".join(f"{VOLUMES_DIRECTORY}/{claim}" for claim in pod.claims)
    return {
        "name": "ownership",
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-ec", f"chown {_USER}:{_USER} {folders}"],
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
        },
        "volumeMounts": mounts,
    }


async def run_pod(cluster: Cluster, pod: OneOff, console: Console, limit: float) -> str:
    """Runs the pod to its end, removes it and returns its output.

    Raises:
        DemoError: It failed or took longer than `limit` seconds; says why.
    """
    await remove_pod(cluster, pod.name)
    await kubectl("apply", "-f", "-", stdin=json.dumps(manifest(pod, cluster.namespace)))
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod.name}"

    async def state() -> str:
        found = await cluster.find(path)
        phase: str = (found or {}).get("status", {}).get("phase", "Pending")
        return "" if phase in ("Succeeded", "Failed") else phase

    async def why() -> str:
        found = await cluster.find(path)
        output = await kubectl("logs", "-n", cluster.namespace, pod.name, "--tail=20")
        return f"{pod_trouble(found or {})}\n{output}"

    started = time.monotonic()
    await wait_for(f"pod {pod.name}", state, why, console, limit)
    found = await cluster.find(path)
    output = await kubectl("logs", "-n", cluster.namespace, pod.name, "-c", _CONTAINER)
    if found is None or found["status"]["phase"] != "Succeeded":
        trouble = pod_trouble(found or {})
        raise DemoError(f"pod {pod.name} failed after {time.monotonic() - started:.0f} s: {trouble}", output[-2000:])
    await remove_pod(cluster, pod.name)
    return output


async def remove_pod(cluster: Cluster, name: str) -> None:
    """Removes a pod and waits until it is gone."""
    await kubectl("delete", "pod", "-n", cluster.namespace, name, "--ignore-not-found", "--wait", "--grace-period=1")
