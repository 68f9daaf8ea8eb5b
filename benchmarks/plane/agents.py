"""Simulated agents: the node agent's own report and its own requests, without devices, kubelet and gate."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from plane.engine import BURST_SECONDS, BURSTS, Engine
from plane.names import AGENTS, DEVICES, NAMESPACE, SLOTS, engine_name, node_name, service_name
from plane.progress import Progress

from rowen.crds.harvest.node_harvest import NodeHarvestSpec, PoolOwners
from rowen.crds.names import HEARTBEAT_SECONDS, PROGRESS_SECONDS
from rowen.kube.client import Client
from rowen.kube.errors import KubeError
from rowen.kube.pauses import pause_seconds
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import NvidiaDeviceConfig
from rowen.node_agent.devices.counts import Closing, DeviceCounts
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.status import DeviceSnapshot, node_status

_MEMORY = "80Gi"
_GIB = 2**30
_POOL_BYTES = 30 * _GIB
"""Of a device: its engine has 4 to 15 GiB of it in a burst, and half as much between two."""
_RESTING_BYTES, _MOST_BYTES = 4 * _GIB, 15 * _GIB
"""What its engine uses of it between two bursts, when reports are taken to be made, and has at most."""
_OWN_BYTES = 12 * _GIB
"""Of all pods on a device for themselves."""
_LONGEST_PAUSE_SECONDS = 6.0


@dataclass
class Tally:
    """What all agents together did."""

    reports: int = 0
    failures: int = 0
    late_seconds: list[float] = field(default_factory=list)
    """Of each report and heartbeat, how much later than due it was begun: how far the simulation is behind."""


class Agent:
    """Of one node. Its engine is busy for a part of every `BURST_SECONDS`, the same for all its devices."""

    def __init__(self, client: Client, number: int, source: random.Random, tally: Tally) -> None:
        self._cluster = Cluster(client, node_name(number), AGENTS)
        self._online = PodView(NAMESPACE, engine_name(node_name(number)), service=service_name(number))
        self._engine = Engine(self._online, source.uniform(0.05, 0.6), source.uniform(0.0, BURST_SECONDS))
        self._progress = Progress(1.0 - self._engine.load)
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
                pause = pause_seconds(error, failures, first=1.0, most=most, most_wished=most)
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
        running = [pod for pod in pods if pod.phase == "Running"]
        held = {config.id: [pod for pod in running if config.id in pod.devices][:SLOTS] for config in self._configs}
        self._engine.look(now, beside=any(held.values()))
        self._progress.advance(list(held.values()), now)
        return [self._snapshot(config, held[config.id], closings, now) for config in self._configs]

    def _snapshot(
        self, config: NvidiaDeviceConfig, tenants: list[PodView], closings: tuple[Closing, ...], now: float
    ) -> DeviceSnapshot:
        busy, idle = any(closing.opened is None for closing in closings), 1.0 - self._engine.load
        beside, first = bool(tenants), config is self._configs[0]
        counts = DeviceCounts(
            now=now, idle_seconds=0.0, harvested_seconds=0.0, preemptions=int(now // BURST_SECONDS), backstops=0,
            decode_gap=0.02, cooldown=0.04, gate_open=not busy, online_processes=1, in_flight=int(busy),
            tenant_processes=len(tenants), tenants=tuple(self._progress.counts(pod) for pod in tenants),
        )  # fmt: skip
        return DeviceSnapshot(
            config=config, hardware="NVIDIA H200", usable=True, counts=counts, idle_fraction=idle,
            harvested_fraction=idle if beside else 0.0, covered=self._window,
            requests=self._engine.requests(now - self._window, now, beside=beside) if first else (),
            closings=closings, placements=Placements(self._online, tuple(enumerate(tenants))), pool=_owners(beside),
            memory=tuple(self._memory(closings)), idles=self._engine.idles,
            # An engine over several devices tells its requests once.
            latencies=self._engine.latencies if first else None,
        )  # fmt: skip

    def _closings(self, now: float) -> tuple[Closing, ...]:
        """Of the window that ends now."""
        bursts = self._engine.bursts(now - BURSTS * BURST_SECONDS, now)
        return tuple(
            Closing(
                burst.number, burst.start, burst.start, burst.end if burst.end <= now else None, 0, for_request=True
            )
            for burst in bursts
        )

    def _memory(self, closings: Iterable[Closing]) -> Iterator[MemorySample]:
        """Each of `BURSTS` bursts in turn needs another amount, so that every window has them all."""
        for closing in closings:
            most = (4 + 5 * closing.number % BURSTS) * _GIB
            for moment, used in ((closing.closed, most), (closing.opened, most // 2)):
                if moment is not None:
                    yield MemorySample(moment, _POOL_BYTES - used)


def _owners(beside: bool) -> PoolOwners:
    """Of a device between two bursts."""
    lent = _POOL_BYTES - _MOST_BYTES if beside else 0
    fixed, ahead = _OWN_BYTES, _MOST_BYTES - _RESTING_BYTES
    free = 80 * _GIB - fixed - _MOST_BYTES - lent
    return PoolOwners(
        fixed_bytes=fixed,
        online_used_bytes=_RESTING_BYTES,
        online_ahead_bytes=ahead,
        offline_bytes=lent,
        free_bytes=free,
    )


def _config(index: int) -> NvidiaDeviceConfig:
    return NvidiaDeviceConfig(
        id=f"gpu{index}", memory=_MEMORY, harvest_slots=SLOTS, backend="nvidia",
        gpu=f"GPU-{index:08x}-0000-0000-0000-000000000000",
    )  # fmt: skip
