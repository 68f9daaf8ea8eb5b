"""`logs`: what a job's pods have written."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from rowen.crds.common import find_condition
from rowen.crds.names import ATTEMPT_LABEL, JOB_UID_LABEL
from rowen.kube.client import Client, Raw
from rowen.kube.kinds import PODS
from rowen.kube.objects import list_all
from rowen.scheduler.cli.lookup import find, status_of
from rowen.scheduler.cli.session import LIMIT_SECONDS, CommandError

_QUIET_SECONDS = 86400.0
"""So long a job may write nothing before its log is given up."""


@dataclass(frozen=True)
class Worker:
    """A pod of a job, and the container in it that is the tenant."""

    namespace: str
    pod: str
    container: str

    @property
    def path(self) -> str:
        """Of its log."""
        return f"{PODS.path(self.namespace, self.pod)}/log"


async def workers(client: Client, job: str, namespace: str | None, *, previous: bool) -> list[Worker]:
    """The pods of the job's last attempt, or of the one before. Raises `CommandError`, `KubeError`.

    The former too where one of them is on no node yet, with the reason.
    """
    async with asyncio.timeout(LIMIT_SECONDS):
        raw = await find(client, job, namespace)
        meta = raw["metadata"]
        own = replace(PODS, selector=f"{JOB_UID_LABEL}={meta['uid']}")
        pods = await list_all(client, own, namespace=meta["namespace"], most_seconds=LIMIT_SECONDS)
    attempts = sorted({_attempt(pod) for pod in pods})
    if not attempts:
        raise CommandError(_no_pod(job, raw))
    if previous and len(attempts) < 2:
        raise CommandError(f"{job}: there is no pod of an attempt before {attempts[-1]}")
    wanted = attempts[-2] if previous else attempts[-1]
    found = [pod for pod in pods if _attempt(pod) == wanted]
    for pod in found:
        # Of a pod that no kubelet has, the API server answers with an empty log.
        if not pod["spec"].get("nodeName"):
            raise CommandError(f"{job}: {_unscheduled(pod)}")
    names = sorted((pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]) for pod in found)
    return [Worker(meta["namespace"], pod, container) for pod, container in names]


async def write(
    client: Client, found: list[Worker], say: Callable[[str], None], *, follow: bool, tail: int | None
) -> None:
    """Says every line; of several workers each with its pod's name before it. Raises `KubeError`."""
    query = {"follow": "true"} if follow else {}
    query |= {"tailLines": str(tail)} if tail is not None else {}

    async def one(worker: Worker) -> None:
        prefix = f"[{worker.pod}] " if len(found) > 1 else ""
        asked, silence = {**query, "container": worker.container}, _silence(follow)
        async with client.lines(worker.path, asked, silence, open_end=True) as lines:
            await _said(lines, prefix, say)

    if not follow:
        for worker in found:
            await one(worker)
        return
    await asyncio.gather(*map(one, found))


def _silence(follow: bool) -> float:
    return _QUIET_SECONDS if follow else LIMIT_SECONDS


async def _said(lines: AsyncIterator[bytes], prefix: str, say: Callable[[str], None]) -> None:
    async for line in lines:
        say(prefix + line.decode(errors="replace"))


def _attempt(pod: Raw) -> int:
    try:
        return int((pod["metadata"].get("labels") or {}).get(ATTEMPT_LABEL, ""))
    except ValueError:
        return 0


def _unscheduled(pod: Raw) -> str:
    """Why there is no log of it, by kube-scheduler's condition."""
    told = f"pod {pod['metadata']['name']} is on no node yet, so it has written nothing"
    conditions = (pod.get("status") or {}).get("conditions") or ()
    why: Raw = next((each for each in conditions if each["type"] == "PodScheduled" and each["status"] != "True"), {})
    return ": ".join((told, *(why[part] for part in ("reason", "message") if why.get(part))))


def _no_pod(job: str, raw: Raw) -> str:
    """Why there is none, by the first condition that explains it."""
    status = status_of(job, raw)
    finished, placed = (find_condition(status.conditions, type_) for type_ in ("Finished", "Placed"))
    if finished is not None and finished.status == "True":
        return f"{job} has finished ({finished.reason}), and its pods are gone"
    if placed is None:
        return f"{job} has no pod yet: the scheduler has not looked at it"
    if placed.status != "True":
        return f"{job} has no pod: {placed.reason}: {placed.message}"
    running = find_condition(status.conditions, "Running")
    why = f": {running.reason}: {running.message}" if running is not None and running.status != "True" else ""
    return f"{job} is placed and has no pod yet{why}"
