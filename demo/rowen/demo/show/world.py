"""What the demo knows of the cluster: devices, jobs and the service's readiness, read again and again."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from rowen.crds.common import find_condition, holds
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.job.offline_job_status import CO_SERVE, OfflineJobStatus
from rowen.crds.names import SERVICE_LABEL
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.demo.cluster.kubectl import Cluster, Object
from rowen.demo.mode import Mode
from rowen.demo.verdict.checks import JobResult, Readiness
from rowen.demo.verdict.memory import PoolReading, Reclaimed, parse_reclaimed
from rowen.demo.verdict.riding import Ridden, RideReading, parse_ridden
from rowen.demo.verdict.statistics import Span
from rowen.demo.verdict.timeline import ServedRequest, Transition
from rowen.kube.errors import KubeError

AGENT_NAMESPACE = "rowen-agent"
AGENT_PORT = 9090
SUCCESS_REASON = "Completed"

_INTERVAL = 1.0
# The timeline is asked for again a little before the last answer: a transition may have been pending then.
_OVERLAP = 30.0
# Readings further apart say nothing of the time between them.
_PRESENCE_GAP = 10.0

DeviceKey = tuple[str, str]
"""A device: node and id."""


@dataclass
class DeviceRecord:
    """A device with its history since the world is watched."""

    harvest: DeviceDetail
    transitions: dict[int, Transition] = field(default_factory=dict)
    """By millisecond of the close."""
    requests: dict[tuple[float, float], ServedRequest] = field(default_factory=dict)
    """By TTFT and TPOT, which differ between requests to the nanosecond."""
    present: list[Span] = field(default_factory=list)
    """When offline processes were behind the gate, to the second."""
    attached: bool = False
    """Whether they were at the last reading."""
    pool: list[PoolReading] = field(default_factory=list)
    """Whose its memory was, to the second; empty where memory does not change its owner."""
    rides: list[RideReading] = field(default_factory=list)
    """What had ridden in its engine, to the second; empty where that takes no jobs in."""

    def see_harvest(self, harvest: DeviceDetail, reclaimed: Reclaimed, ridden: Ridden, now: float) -> None:
        """Takes in how the device stands now."""
        self.harvest = harvest
        self.see_tenants(any(tenant.attached and tenant.mode != CO_SERVE for tenant in harvest.tenants), now)
        if harvest.co_serving is not None:
            self.rides.append(RideReading(now, ridden))
        if harvest.pool is not None:
            self.pool.append(PoolReading(now, harvest.pool, reclaimed))

    def see_tenants(self, attached: bool, now: float) -> None:
        """Takes in whether offline processes are behind the gate."""
        if attached and self.attached and now - self.present[-1][1] < _PRESENCE_GAP:
            self.present[-1] = (self.present[-1][0], now)
        elif attached:
            self.present.append((now, now))
        self.attached = attached

    def see(self, transitions: Iterable[Transition], requests: Iterable[ServedRequest]) -> None:
        """Takes in an answer of the agent. It may repeat earlier ones with times that differ by microseconds."""
        for transition in transitions:
            moment = round(transition.closed * 1000)
            known = next((key for key in (moment - 1, moment + 1) if key in self.transitions), moment)
            self.transitions[known] = transition
        for request in requests:
            self.requests[request.ttft, request.tpot] = request


@dataclass
class World:
    """The latest reading, and what accumulates over time."""

    since: float = field(default_factory=time.time)
    """Unix time since which it is watched."""
    devices: dict[DeviceKey, DeviceRecord] = field(default_factory=dict)
    jobs: dict[str, OfflineJobStatus] = field(default_factory=dict)
    modes: dict[str, Counter[str]] = field(default_factory=dict)
    """By job, how often it was seen with a place in each mode."""
    observations: int = 0
    lapses: list[str] = field(default_factory=list)
    problem: str = ""
    """Why the last reading failed; empty when it did not."""
    pods: dict[str, int] = field(default_factory=dict)
    """Pods of the service by uid, with their restarts, as first seen."""

    @property
    def readiness(self) -> Readiness:
        """What was seen of the service."""
        return Readiness(self.observations, time.time() - self.since, tuple(self.lapses))

    def serving(self, service: str) -> list[tuple[DeviceKey, DeviceRecord]]:
        """Devices that the service runs on."""
        return [
            (key, record)
            for key, record in sorted(self.devices.items())
            if record.harvest.online is not None and record.harvest.online.service == service
        ]

    @property
    def riding(self) -> set[str]:
        """Jobs that are joined with an engine now."""
        return {
            tenant.job
            for record in self.devices.values()
            for tenant in record.harvest.tenants
            if tenant.job is not None and tenant.mode == CO_SERVE and tenant.attached
        }

    def job_result(self, name: str) -> JobResult:
        """How a job stands."""
        status = self.jobs.get(name)
        if status is None:
            return JobResult(name, False, False, "missing", "the OfflineJob is not there", 0, 0)
        finished = find_condition(status.conditions, "Finished")
        ended = finished is not None and finished.status == "True"
        last = finished if ended else (status.conditions[-1] if status.conditions else None)
        return JobResult(
            name=name,
            finished=ended,
            succeeded=ended and finished is not None and finished.reason == SUCCESS_REASON,
            state=status.state or "unknown",
            message=last.message if last else "",
            completed=status.progress.completed if status.progress else 0,
            total=status.progress.total if status.progress else 0,
        )

    def see_job(self, name: str, status: OfflineJobStatus) -> None:
        """Takes in a reading of an OfflineJob."""
        self.jobs[name] = status
        if status.assignment is not None:
            self.modes.setdefault(name, Counter())[status.assignment.mode or Mode.PREEMPT.value] += 1

    def see_service(self, service: Object | None, pods: list[Object]) -> None:
        """Takes in a reading of the OnlineService and its pods, and notes each lapse of readiness."""
        self.observations += 1
        for lapse in _service_lapses(service, self.since) + self._pod_lapses(pods):
            if lapse not in self.lapses:
                self.lapses.append(lapse)

    def _pod_lapses(self, pods: list[Object]) -> list[str]:
        seen = {pod["metadata"]["uid"]: _restarts(pod) for pod in pods}
        if not self.pods:
            self.pods = seen
        lapses = [f"pod {uid} is gone" for uid in self.pods if uid not in seen]
        lapses += [f"pod {uid} restarted" for uid, count in seen.items() if count > self.pods.get(uid, count)]
        lapses += [f"pod {pod['metadata']['name']} not Ready" for pod in pods if not _ready(pod)]
        return lapses


def _service_lapses(service: Object | None, since: float) -> list[str]:
    if service is None:
        return ["the OnlineService is gone"]
    ready = find_condition(OnlineServiceStatus.from_wire(service.get("status", {})).conditions, "Ready")
    if ready is None:
        return ["no Ready condition"]
    if ready.status != "True":
        return [f"Ready={ready.status} since {ready.last_transition_time}: {ready.reason}"]
    if unix_time(ready.last_transition_time) > since:
        return [f"Ready again only since {ready.last_transition_time}"]
    return []


def unix_time(text: str) -> float:
    """Unix time of an RFC 3339 time. Raises `ValueError`."""
    return datetime.fromisoformat(text).timestamp()


def _restarts(pod: Object) -> int:
    return sum(status["restartCount"] for status in pod.get("status", {}).get("containerStatuses", []))


def _ready(pod: Object) -> bool:
    return holds(pod.get("status", {}).get("conditions", []), "Ready")


class Observer:
    """Reads the world once a second."""

    def __init__(self, cluster: Cluster, service: str, jobs: tuple[str, ...]) -> None:
        """Watches one service and the named jobs."""
        self._cluster = cluster
        self._service = service
        self._jobs = jobs
        self.world = World()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[World]:
        """Watches as long as the context is open."""
        task = asyncio.create_task(self._loop())
        try:
            yield self.world
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _loop(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self.observe()
                self.world.problem = ""
            except (KubeError, ValueError, KeyError) as error:
                self.world.problem = f"{type(error).__name__}: {error}"
            await asyncio.sleep(max(0.0, started + _INTERVAL - time.monotonic()))

    async def observe(self) -> None:
        """One reading. Raises `KubeError`, or `ValueError`."""
        service = await self._cluster.rowen("onlineservices", self._service)
        pods = await self._cluster.pods(f"{SERVICE_LABEL}={self._service}")
        self.world.see_service(service, [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]])
        for name in self._jobs:
            job = await self._cluster.rowen("offlinejobs", name)
            if job is not None:
                self.world.see_job(name, OfflineJobStatus.from_wire(job.get("status", {})))
        for agent in await self._cluster.pods(namespace=AGENT_NAMESPACE):
            if _ready(agent):
                await self._see_agent(agent["metadata"]["name"], agent["spec"]["nodeName"])

    async def _see_agent(self, pod: str, node: str) -> None:
        answer = await self._cluster.pod_get(AGENT_NAMESPACE, pod, AGENT_PORT, "v1/devices")
        now = time.time()
        metrics = await self._cluster.pod_text(AGENT_NAMESPACE, pod, AGENT_PORT, "metrics")
        reclaimed, ridden = parse_reclaimed(metrics), parse_ridden(metrics)
        for value in answer["devices"]:
            harvest = DeviceDetail.from_wire(value)
            record = self.world.devices.setdefault((node, harvest.id), DeviceRecord(harvest))
            record.see_harvest(harvest, reclaimed.get(harvest.id, Reclaimed()), ridden.get(harvest.id, Ridden()), now)
            since = max([self.world.since, *(moment / 1000 - _OVERLAP for moment in list(record.transitions)[-1:])])
            path = f"v1/devices/{harvest.id}/timeline?since={since:.3f}"
            history = await self._cluster.pod_get(AGENT_NAMESPACE, pod, AGENT_PORT, path)
            record.see(
                map(Transition.from_wire, history["transitions"]), map(ServedRequest.from_wire, history["requests"])
            )
