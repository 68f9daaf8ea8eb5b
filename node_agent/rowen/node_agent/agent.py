"""The agent's loops: lease, sampling, who is where, reports, the kubelet."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial

import grpc
import structlog

from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.harvest.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.crds.names import (
    HARVEST_RESOURCE,
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    NODE_LEASE_SECONDS,
    ONLINE_RESOURCE,
    PROGRESS_SECONDS,
    RIDE_RESOURCE,
)
from rowen.kube.errors import KubeError
from rowen.kube.pauses import pause_seconds
from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.attach.eviction import kill
from rowen.node_agent.attach.offence import Evict
from rowen.node_agent.attach.watch import Notice
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import Settings
from rowen.node_agent.errand import errand
from rowen.node_agent.health import stalled
from rowen.node_agent.kubelet.plugin import DevicePlugin
from rowen.node_agent.kubelet.pods import PodView, preferred_slots
from rowen.node_agent.kubelet.registration import Registration, device_holders
from rowen.node_agent.lease import RENEW_PERIOD
from rowen.node_agent.memory.shortage import REASON as SHORTAGE
from rowen.node_agent.node import Node, unix_offset
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.status import device_detail, node_status
from rowen.node_agent.tries import Tries

log = structlog.get_logger()

_SAMPLE_PERIOD = 0.5
_FAULT_PERIOD = 5.0
_SHORTAGE_PERIOD = 5.0
_KILL_SECONDS = 10.0
"""The kernel has then not answered: a kill gives up by itself before."""
_HANDLING_SECONDS = 30.0
"""A kill and the API server's answers."""
_EVENT_SECONDS = 10.0
_LONGEST_PAUSE = 6.0
"""Between two heartbeats that are not accepted, in seconds: well within the lease."""


class Agent:
    """One per node."""

    def __init__(self, settings: Settings, node: Node, cluster: Cluster) -> None:
        self.node = node
        self._settings = settings
        self._cluster = cluster
        self._spec: NodeHarvestSpec | None = None
        self._written: Written | None = None
        """The last report that was accepted; None: the next one is due."""
        self._reported = float("-inf")
        """When the last report that was accepted was made, on the monotonic clock."""
        self._stands = asyncio.Event()
        """Set while there is a report that can be relied upon: none was refused since one was accepted."""
        self._beats: dict[str, float] = {}
        self._told: set[str] = set()
        """Pods that were told that their device is too small, by UID."""
        self._tellings = Tries[str]()
        self._kills: dict[str, Future[bool]] = {}
        """Of pods, by UID."""
        self._notices: asyncio.Queue[Notice] = asyncio.Queue()
        plugins = [
            DevicePlugin(ONLINE_RESOURCE, node.online_ids, node.allocate_online, node.prefer_online),
            DevicePlugin(HARVEST_RESOURCE, node.slot_ids, node.allocate_slots, partial(self._prefer, False)),
            DevicePlugin(RIDE_RESOURCE, node.rides.seat_ids, node.rides.allocate, partial(self._prefer, True)),
        ]
        node.rides.known_pods = cluster.known_pods
        self._registration = Registration(settings.device_plugins, plugins)

    async def run(self) -> None:
        """Runs until cancelled; raises what a loop could not handle."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.follow())
            tasks.create_task(self._registration.run())
            tasks.create_task(_every(RENEW_PERIOD, partial(self._beat, "lease", self._renew)))
            tasks.create_task(_every(_SAMPLE_PERIOD, partial(self._beat, "sample", self._sample)))
            tasks.create_task(self._handle_for_ever())
            # What drivers, pods and the API server hold up has no beat: a new agent would not fare better.
            tasks.create_task(_every(_FAULT_PERIOD, self._look_for_faults))
            tasks.create_task(_every(_SHORTAGE_PERIOD, self._tell_of_shortages))
            tasks.create_task(self._report_for_ever())
            tasks.create_task(self._renew_for_ever())

    async def _beat(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._beats[name] = time.monotonic()
        await work()

    async def _renew(self) -> None:
        self.node.renew()

    async def _look_for_faults(self) -> None:
        # A driver may take its time, which no device's lease waits for.
        self.node.note(await asyncio.to_thread(self.node.find_faults))

    async def _sample(self) -> None:
        self.node.sample(self._window())
        for notice in self.node.notices():
            self._notices.put_nowait(notice)

    async def _handle_for_ever(self) -> None:
        """Apart from the samples: neither a pod that is slow to end nor the API server keeps memory from its owners."""
        while True:
            notice = await self._notices.get()
            try:
                async with asyncio.timeout(_HANDLING_SECONDS):
                    await self.handle(notice)
            except TimeoutError:
                log.error("what was to be done about a pod takes too long", pod=notice.pod.uid)

    async def handle(self, notice: Notice) -> None:
        """Evicts a pod that had to be stopped again, or keeps memory, and tells its users of what was done."""
        reason, message = str(notice.decision.reason), notice.decision.message
        log.warning("a pod does not keep to its device's terms", pod=notice.pod.uid, reason=reason, message=message)
        if isinstance(notice.decision, Evict):
            if not await self._evict(notice.pod):
                return
            reason = f"Evicted{reason}"
        try:
            if pod := await self._cluster.pod(notice.pod.uid):
                await self._cluster.event(pod, reason, message)
        except KubeError as error:
            log.warning("an event was not accepted", pod=notice.pod.uid, error=str(error) or type(error).__name__)

    async def _evict(self, pod: PodCgroup) -> bool:
        """False, said in the log: a process of it may still run."""
        reason = "its processes do not end"
        try:
            if await asyncio.wait_for(asyncio.wrap_future(self._kill(pod)), _KILL_SECONDS):
                return True
        except TimeoutError:
            reason = "the kernel does not answer"
        except OSError as error:
            reason = str(error)
        log.error("a pod could not be evicted, and no event says so", pod=pod.uid, reason=reason)
        return False

    def _kill(self, pod: PodCgroup) -> Future[bool]:
        """Begins it, unless the last one has not come back."""
        self._kills = {uid: running for uid, running in self._kills.items() if not running.done()}
        if pod.uid not in self._kills:
            self._kills[pod.uid] = errand(partial(kill, pod))
        return self._kills[pod.uid]

    def _window(self) -> float:
        return float((self._spec or NodeHarvestSpec()).window_seconds)

    async def _report_for_ever(self) -> None:
        failures = 0
        while True:
            self._beats["report"] = time.monotonic()
            try:
                await self._report()
            except (KubeError, OSError) as error:
                log.warning("the API server did not accept the report", error=str(error) or type(error).__name__)
                self._unaccepted(error)
                failures += 1
                pause = _pause(error, failures, PROGRESS_SECONDS)
            else:
                failures, pause = 0, min(PROGRESS_SECONDS, (self._spec or NodeHarvestSpec()).interval_seconds)
            # A slow API server's answers and a rest may together last for longer than a loop may without being stalled.
            self._beats["report"] = time.monotonic()
            await asyncio.sleep(pause)

    def _unaccepted(self, error: KubeError | OSError) -> None:
        """What the last one says holds no longer, unless the API server is just too busy: that gets no more work."""
        if isinstance(error, KubeError) and error.passes:
            return
        self._stands.clear()
        if isinstance(error, KubeError):
            # The object may have been deleted.
            self._spec = None

    async def _report(self) -> None:
        """Looks at the node, and writes what matters."""
        if self._spec is None:
            self._spec = await self._cluster.ensure()
        await self._place()
        taken, status = time.monotonic(), self.status()
        if due(self._written, status, taken, self._window()):
            # Where no answer comes it may be in the store all the same: the next one is written whatever it says.
            self._written = None
            await self._cluster.report(status)
            self._written, self._reported = Written(taken, status), taken
            # A changed report is a sign of life to its readers, also where heartbeats are refused.
            self._accepted(taken)
        self._stands.set()

    async def _place(self) -> None:
        """Takes note of who is where."""
        pods = await self._cluster.pods()
        try:
            holders = await device_holders(self._settings.pod_resources)
        except grpc.RpcError:
            return
        keys = {key for devices in holders.values() for key in devices.values()}
        # The kubelet may have heard earlier of a pod; what one has for itself is not to be lent to others meanwhile.
        if not keys <= {pod.key for pod in pods}:
            await self._cluster.list_pods()
        self.node.place(holders, self._cluster.known_pods())

    def _prefer(self, ride: bool, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """Which slots, or seats, the kubelet should hand out, often as soon as a pod has come."""
        return preferred_slots(available, required, size, self._cluster.known_pods(), ride=ride)

    async def _renew_for_ever(self) -> None:
        """The node's heartbeat. It says that the node's report can be relied upon: without one there is none."""
        failures = 0
        while True:
            await self._stands.wait()
            sent = time.monotonic()
            if sent - self._reported > LATE_SECONDS:
                self._stands.clear()
                continue
            try:
                await self._cluster.renew()
            except (KubeError, OSError) as error:
                failures += 1
                log.warning("the API server did not accept the heartbeat", error=str(error) or type(error).__name__)
                await asyncio.sleep(_pause(error, failures, _LONGEST_PAUSE))
                continue
            self._accepted(sent)
            failures = 0
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _accepted(self, sent: float) -> None:
        """The API server has accepted a sign of life that was sent at `sent`, on the monotonic clock."""
        self.node.last_accepted = max(sent, self.node.last_accepted or sent)

    async def _tell_of_shortages(self) -> None:
        """Apart from the reports. An event that is refused is tried again, ever more seldom."""
        shortages = {pod.uid: (pod, message) for pod, message in self.node.shortages()}
        self._told &= shortages.keys()
        for uid in self._tellings.due(shortages.keys() - self._told, time.monotonic()):
            await self._tell_of_shortage(*shortages[uid])

    async def _tell_of_shortage(self, pod: PodView, message: str) -> None:
        log.warning("a device is too small for its engine", pod=pod.name, namespace=pod.namespace, message=message)
        try:
            async with asyncio.timeout(_EVENT_SECONDS):
                await self._cluster.event(pod, SHORTAGE, message)
        except (KubeError, TimeoutError) as error:
            log.warning("an event was not accepted", pod=pod.uid, error=str(error) or type(error).__name__)
        else:
            self._told.add(pod.uid)

    def status(self) -> NodeHarvestStatus:
        """The report as of now."""
        return node_status(
            self.node.snapshots(),
            now=time.time(),
            window=self._window(),
            unix_offset=unix_offset(),
        )

    def details(self) -> list[DeviceDetail]:
        """The devices of that report, with what is told by HTTP alone."""
        found = zip(self.node.snapshots(), self.status().devices, strict=True)
        return [device_detail(snapshot, device) for snapshot, device in found]

    def stalled(self) -> list[str]:
        """Loops and native threads that have not come round for long, in words."""
        return stalled(self._beats, self.node.beats(), time.monotonic())

    def unready(self) -> str | None:
        """Why the node cannot take offline work, or None."""
        if not self._registration.registered:
            return "not registered with the kubelet"
        accepted = self.node.last_accepted
        if accepted is None or time.monotonic() - accepted > NODE_LEASE_SECONDS:
            return "the API server has accepted neither heartbeat nor report of late"
        return None


def _pause(error: Exception, failures: int, most: float) -> float:
    """Seconds to the next try, up to a quarter more than `most`, whatever a busy API server wishes."""
    return pause_seconds(error, failures, first=1.0, most=most, most_wished=most)


async def _every(period: float, work: Callable[[], Awaitable[None]]) -> None:
    """Again and again, with so many seconds in between."""
    while True:
        await work()
        await asyncio.sleep(period)
