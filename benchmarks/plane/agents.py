"""Simulated agents: the node agent's own report and its own requests, without devices, kubelet and gate."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from plane.names import AGENTS, DEVICES, NAMESPACE, SLOTS, engine_name, node_name, service_name

from rowen.crds.names import HEARTBEAT_SECONDS, PROGRESS_SECONDS
from rowen.crds.node_harvest import NodeHarvestSpec
from rowen.kube.client import Client
from rowen.kube.errors import KubeError
from rowen.kube.pauses import pause_seconds
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import NvidiaDeviceConfig
from rowen.node_agent.devices.counts import Closing, DeviceCounts, TenantCounts
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.status import DeviceSnapshot, node_status

_BURSTS, _BURST_SECONDS = 12, 5.0
"""Requests of an engine in each window, one every so often."""
_MEMORY = "80Gi"
_GIB = 2**30
_POOL_BYTES = 30 * _GIB
"""Of a device: its engine has 4 to 15 GiB of it in a burst, and half as much between two."""
_LONGEST_PAUSE_SECONDS = 6.0


@dataclass
class Tally:
    """What all agents together did."""

    reports: int = 0
    failures: int = 0
    late_seconds: list[float] = field(default_factory=list)
    """Of each report and heartbeat, how much later than due it was begun: how far the simulation is behind."""


class Agent:
    """Of one node. Its engine is busy for a part of every `_BURST_SECONDS`, the same for all its devices."""

    def __init__(self, client: Client, number: int, source: random.Random, tally: Tally) -> None:
        self._cluster = Cluster(client, node_name(number), AGENTS)
        self._online = PodView(NAMESPACE, engine_name(node_name(number)), service=service_name(number))
        self._load, self._phase = source.uniform(0.05, 0.6), source.uniform(0.0, _BURST_SECONDS)
        self._first = source.uniform(0.0, HEARTBEAT_SECONDS)
        self._configs = [_config(index) for index in range(DEVICES)]
        self._window = float(NodeHarvestSpec().window_seconds)
        self._tally = tally
        self._known, self._stands = False, asyncio.Event()
        self._written: Written | None = None
        self._pods: list[PodView] = []

    async def run(self) -> None:
        """Follows its pods, reports and renews its heartbeat until it is cancelled."""
        await asyncio.sleep(self._first)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.follow())
            group.create_task(self._for_ever(self._report, NodeHarvestSpec().interval_seconds))
            group.create_task(self._for_ever(self._renew, HEARTBEAT_SECONDS))

    async def _for_ever(self, work: Callable[[], Awaitable[None]], period: float) -> None:
        """Again and again; what is not accepted, after the agent's own pauses."""
        failures, due = 0, time.monotonic()
        while True:
            self._tally.late_seconds.append(time.monotonic() - due)
            try:
                await work()
                failures, pause = 0, period
            except KubeError as error:
                if reporting := work == self._report:
                    self._written = None
                if reporting and not error.passes:
                    # The object may have been deleted.
                    self._known = False
                    self._stands.clear()
                failures += 1
                self._tally.failures += 1
                most = PROGRESS_SECONDS if reporting else _LONGEST_PAUSE_SECONDS
                pause = pause_seconds(error, failures, first=1.0, most=most, most_wished=_LONGEST_PAUSE_SECONDS)
            due = time.monotonic() + pause
            await asyncio.sleep(pause)

    async def _report(self) -> None:
        if not self._known:
            await self._cluster.ensure()
            self._known = True
        pods = await self._cluster.pods()
        now, monotonic = time.time(), time.monotonic()
        if self._written is not None and pods == self._pods and monotonic - self._written.time < PROGRESS_SECONDS:
            # Nothing that `due` would write: real agents find that out on a thousand machines, these on one.
            return
        self._pods = pods
        snapshots = self.snapshots(pods, monotonic)
        status = node_status(snapshots, now=now, window=self._window, unix_offset=now - monotonic)
        if due(self._written, status, monotonic, self._window):
            await self._cluster.report(status)
            self._written = Written(monotonic, status)
            self._tally.reports += 1
        self._stands.set()

    async def _renew(self) -> None:
        """Not before there is a report that it could vouch for."""
        await self._stands.wait()
        await self._cluster.renew()

    def snapshots(self, pods: list[PodView], now: float) -> list[DeviceSnapshot]:
        """The devices, with the pods that hold them. `now`: monotonic, seconds."""
        closings = self._closings(now)
        return [self._snapshot(config, pods, closings, now) for config in self._configs]

    def _snapshot(
        self, config: NvidiaDeviceConfig, pods: list[PodView], closings: tuple[Closing, ...], now: float
    ) -> DeviceSnapshot:
        tenants = [pod for pod in pods if config.id in pod.devices and pod.phase == "Running"][:SLOTS]
        busy = any(closing.opened is None for closing in closings)
        counts = DeviceCounts(
            now=now, idle_seconds=0.0, harvested_seconds=0.0, preemptions=0, backstops=0, decode_gap=0.02,
            cooldown=0.04, gate_open=not busy, online_processes=1, in_flight=int(busy), tenant_processes=len(tenants),
            tenants=tuple(_counts() for _ in tenants),
        )  # fmt: skip
        return DeviceSnapshot(
            config=config, hardware="NVIDIA H200", usable=True, counts=counts, idle_fraction=1.0 - self._load,
            harvested_fraction=1.0 - self._load if tenants else 0.0, covered=self._window, requests=(),
            closings=closings, placements=Placements(self._online, tuple(enumerate(tenants))),
            memory=tuple(self._memory(closings)),
        )  # fmt: skip

    def _closings(self, now: float) -> tuple[Closing, ...]:
        """Of the window that ends now."""
        last = (now - self._phase) // _BURST_SECONDS
        starts = [(self._phase + (last - back) * _BURST_SECONDS) for back in reversed(range(_BURSTS))]
        ends = [start + self._load * _BURST_SECONDS for start in starts]
        return tuple(
            Closing(number, start, start, end if end <= now else None, 0, for_request=True)
            for number, start, end in zip(count(), starts, ends, strict=False)
        )

    def _memory(self, closings: Iterable[Closing]) -> Iterator[MemorySample]:
        """Each of `_BURSTS` bursts in turn needs another amount, so that every window has them all."""
        for closing in closings:
            burst = round((closing.closed - self._phase) / _BURST_SECONDS)
            most = (4 + 5 * burst % _BURSTS) * _GIB
            for moment, used in ((closing.closed, most), (closing.opened, most // 2)):
                if moment is not None:
                    yield MemorySample(moment, _POOL_BYTES - used)


def _config(index: int) -> NvidiaDeviceConfig:
    return NvidiaDeviceConfig(
        id=f"gpu{index}", memory=_MEMORY, harvest_slots=SLOTS, backend="nvidia",
        gpu=f"GPU-{index:08x}-0000-0000-0000-000000000000",
    )  # fmt: skip


def _counts() -> TenantCounts:
    """Of a tenant that reports no progress."""
    return TenantCounts(
        attached=1, open_seconds=0.0, preemptions=0, backstops=0, reports=0, completed=0, total=0, tokens=0,
        granted_seconds=0.0,
    )  # fmt: skip
