"""Simulated kubelets, and what binds pods to their nodes: pods of jobs run for a while and succeed."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from plane.names import HELD, NAMESPACE

from rowen.crds.names import JOB_LABEL
from rowen.kube import kinds
from rowen.kube.client import Client
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.informer import Informer
from rowen.kube.objects import delete
from rowen.kube.pauses import pause_seconds
from rowen.kube.timestamps import rfc3339

PODS = replace(kinds.PODS, selector=JOB_LABEL)
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 6.0
_AT_ONCE = 16
_LONGEST_PAUSE_SECONDS = 5.0
_GONE = (404, 409)


@dataclass(frozen=True)
class JobPod:
    """A pod of a job."""

    name: str
    uid: str
    job: str
    node: str
    """Where it is bound, or has to be."""
    container: str
    bound: bool
    ended: bool
    deleting: bool


def job_pod(raw: dict[str, Any]) -> JobPod:
    """Reads a pod as the operator makes it."""
    meta, spec = raw["metadata"], raw["spec"]
    return JobPod(
        name=meta["name"],
        uid=meta["uid"],
        job=meta["labels"][JOB_LABEL],
        node=spec.get("nodeName") or _pinned(spec),
        container=spec["containers"][0]["name"],
        bound="nodeName" in spec,
        ended=(raw.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        deleting="deletionTimestamp" in meta,
    )


def _pinned(spec: dict[str, Any]) -> str:
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def run_seconds(seed: int, pod: str) -> float:
    """For how long a pod that is not held runs."""
    return random.Random(f"{seed} {pod}").uniform(_LEAST_SECONDS, _MOST_SECONDS)


class Kubelets:
    """Of all nodes. Each pod has a task; what the API server does not take is tried again."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client, self._seed = client, seed
        self._informer = Informer(client, PODS, job_pod, self._changed)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._writers = asyncio.Semaphore(_AT_ONCE)
        self.released = asyncio.Event()
        """The pods of held jobs may end."""
        self.ended = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            await self._informer.run()
        finally:
            for task in (*self._tasks.values(), *self._removals.values()):
                task.cancel()

    def _changed(self, _: JobPod | None, pod: JobPod | None) -> None:
        if pod is None:
            return
        if pod.deleting and pod.uid not in self._removals:
            if (living := self._tasks.get(pod.uid)) is not None:
                living.cancel()
            self._removals[pod.uid] = asyncio.create_task(self._remove(pod))
        elif pod.uid not in self._tasks and not pod.ended:
            self._tasks[pod.uid] = asyncio.create_task(self._live(pod))

    async def _live(self, pod: JobPod) -> None:
        if not pod.bound and not await self._insist(lambda: self._bind(pod)):
            return
        started = rfc3339(time.time())
        if not await self._insist(lambda: self._status(pod, "Running", {"running": {"startedAt": started}})):
            return
        if pod.job.startswith(HELD):
            await self.released.wait()
        else:
            await asyncio.sleep(run_seconds(self._seed, pod.name))
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": rfc3339(time.time())}
        if await self._insist(lambda: self._status(pod, "Succeeded", {"terminated": ended})):
            self.ended += 1

    async def _remove(self, pod: JobPod) -> None:
        await self._insist(lambda: delete(self._client, PODS, NAMESPACE, pod.name, uid=pod.uid, grace_seconds=0))

    async def _insist(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Whether it was taken; not where the pod is gone."""
        failures = 0
        while True:
            try:
                async with self._writers:
                    await work()
                return True
            except KubeError as error:
                if isinstance(error, RefusedError) and error.status in _GONE:
                    return False
                failures += 1
                pause = pause_seconds(error, failures, first=0.5, most=_LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _bind(self, pod: JobPod) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": pod.node}
        metadata = {"name": pod.name, "namespace": NAMESPACE, "uid": pod.uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._client.call("POST", PODS.path(NAMESPACE, pod.name, "binding"), body=body)

    async def _status(self, pod: JobPod, phase: str, state: dict[str, Any]) -> None:
        running = phase == "Running"
        container = {
            "name": pod.container, "image": "none", "imageID": "none", "ready": running, "restartCount": 0,
            "state": state,
        }  # fmt: skip
        ready = {"type": "Ready", "status": str(running), "lastTransitionTime": rfc3339(time.time())}
        body = {"status": {"phase": phase, "conditions": [ready], "containerStatuses": [container]}}
        path = PODS.path(NAMESPACE, pod.name, "status")
        await self._client.call("PATCH", path, body=body, content_type="application/strategic-merge-patch+json")
