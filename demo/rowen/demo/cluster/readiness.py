"""Waiting for the cluster, with progress, and with a reason when it takes too long."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from rich.console import Console

from rowen.crds.common import find_condition
from rowen.crds.harvest.node_harvest import NodeHarvestStatus
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.crds.names import GENERATION_ANNOTATION, GROUP, VERSION
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.demo.cluster.kubectl import Cluster, Object
from rowen.demo.errors import DemoError
from rowen.kube.errors import KubeError

_PERIOD = 1.0


async def wait_for(
    what: str,
    state: Callable[[], Awaitable[str]],
    diagnose: Callable[[], Awaitable[str]],
    console: Console,
    limit: float,
) -> None:
    """Waits until `state()` is empty; prints each new state.

    Raises:
        DemoError: It took longer than `limit` seconds; says what `diagnose()` found.
    """
    started = time.monotonic()
    shown = ""
    while True:
        try:
            current = await state()
        except KubeError as error:
            current = f"the API server does not answer: {error}"
        if not current:
            console.print(f"  {what}: ready after {time.monotonic() - started:.0f} s", highlight=False)
            return
        if current != shown:
            console.print(f"  {what}: {current}", highlight=False)
            shown = current
        if time.monotonic() - started > limit:
            try:
                found = await diagnose()
            except KubeError as error:
                found = f"(nothing could be read: {error})"
            raise DemoError(f"{what}: not ready after {limit:.0f} s: {current}", found)
        await asyncio.sleep(_PERIOD)


async def workloads_state(cluster: Cluster, namespaces: dict[str, str]) -> str:
    """What is missing for all workloads to be available; empty when nothing is.

    Args:
        cluster: Where to look.
        namespaces: Plural of the workloads (`deployments`, `daemonsets`) by namespace.
    """
    missing = []
    for namespace, plural in namespaces.items():
        found = await cluster.items(f"/apis/apps/v1/namespaces/{namespace}/{plural}")
        if not found:
            missing.append(f"no {plural} in {namespace} yet")
        for workload in found:
            ready, wanted = _ready_of(workload, plural)
            if ready < max(wanted, 1):
                missing.append(f"{workload['metadata']['name']} {ready} of {wanted}")
    return ", ".join(missing)


def _ready_of(workload: Object, plural: str) -> tuple[int, int]:
    status = workload.get("status", {})
    if status.get("observedGeneration", 0) < workload["metadata"]["generation"]:
        return 0, 1
    if plural == "daemonsets":
        updated = min(status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
        return updated, status.get("desiredNumberScheduled", 0)
    updated = min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0))
    return updated, workload["spec"].get("replicas", 1)


async def service_state(cluster: Cluster, name: str) -> str:
    """What an OnlineService waits for; empty when it is Ready, with an engine as its present spec has it."""
    found = await cluster.rowen("onlineservices", name)
    if found is None:
        return "not there yet"
    ready = find_condition(OnlineServiceStatus.from_wire(found.get("status", {})).conditions, "Ready")
    if ready is None:
        return "not reconciled yet"
    if ready.status != "True":
        return f"{ready.reason} {ready.message}".strip()
    # Ready is told of what runs, which right after a change is the engine of before.
    engine = await cluster.find(f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{name}")
    follows = engine is not None and is_rolled_out(engine, found["metadata"]["generation"])
    return "" if follows else "its engine is being replaced"


def is_rolled_out(workload: Object, generation: int) -> bool:
    """Whether a Deployment follows that generation of its OnlineService, and has no pod of an earlier one."""
    followed = workload["metadata"].get("annotations", {}).get(GENERATION_ANNOTATION)
    ready, wanted = _ready_of(workload, "deployments")
    status = workload.get("status", {})
    return followed == str(generation) and ready >= wanted and status.get("replicas") == status.get("updatedReplicas")


async def seats_state(cluster: Cluster, service: str) -> str:
    """What the engine of a CoServe service waits for; empty when the scheduler may see that it takes jobs in."""
    for harvest in await cluster.items(f"/apis/{GROUP}/{VERSION}/nodeharvests"):
        for device in NodeHarvestStatus.from_wire(harvest.get("status", {})).devices:
            online, seats = device.online, device.co_serving
            if online and (online.pod.namespace, online.service) == (cluster.namespace, service) and seats:
                return f"nothing rides in its engine any more: {seats.ended}" if seats.ended else ""
    return "its engine takes no jobs in yet"


async def job_running_state(cluster: Cluster, name: str) -> str:
    """What an OfflineJob waits for; empty when it runs or has ended."""
    found = await cluster.rowen("offlinejobs", name)
    if found is None:
        return f"{name}: not there yet"
    status = OfflineJobStatus.from_wire(found.get("status", {}))
    for kind in ("Running", "Finished"):
        condition = find_condition(status.conditions, kind)
        if condition is not None and condition.status == "True":
            return ""
    last = status.explanation.message if status.explanation else ""
    return f"{name}: {status.state or 'not reconciled yet'} {last}".strip()


async def diagnosis(cluster: Cluster, namespaces: tuple[str, ...]) -> str:
    """What is wrong with the pods of some namespaces: their unmet conditions, waiting containers and last events."""
    lines: list[str] = []
    for namespace in namespaces:
        for pod in await cluster.pods(namespace=namespace):
            trouble = pod_trouble(pod)
            if trouble:
                lines.append(f"{namespace}/{pod['metadata']['name']}: {trouble}")
        events = await cluster.items(f"/api/v1/namespaces/{namespace}/events?fieldSelector=type=Warning")
        events.sort(key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
        for event in events[-5:]:
            about = event["involvedObject"]
            lines.append(f"event on {about['kind']}/{about['name']}: {event['reason']}: {event.get('message', '')}")
    return "\n".join(lines) or "no pod or event says why"


def pod_trouble(pod: Object) -> str:
    """Why a pod is not Ready, in a line; empty when nothing says so."""
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return ""
    found = []
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        for kind in ("waiting", "terminated"):
            state = container.get("state", {}).get(kind)
            if state is not None and state.get("reason") != "Completed":
                detail = f"{state.get('reason', kind)} {state.get('message', '')}".strip()
                found.append(f"container {container['name']}: {detail[:400]}")
    found.extend(
        f"{condition['type']}: {condition['reason']} {condition.get('message', '')}".strip()
        for condition in status.get("conditions", [])
        if condition["status"] != "True" and condition.get("reason") not in (None, "PodCompleted")
    )
    return "; ".join(found)
