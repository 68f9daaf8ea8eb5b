"""The scheduler's view of the cluster: one informer per kind, joined into snapshots."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import structlog

from rowen.kube.client import Client, Raw
from rowen.kube.errors import KubeError
from rowen.kube.heartbeat import Beat, read_beat
from rowen.kube.informer import WATCH_SECONDS, Informer
from rowen.kube.kinds import LEASES, NODE_HARVESTS, NODES, OFFLINE_JOBS, ONLINE_SERVICES, PODS
from rowen.kube.resource import Resource
from rowen.scheduler.monitor.hearing import Hearing, advanced, stalled, untold
from rowen.scheduler.snapshot import JobView, NodeView, Snapshot
from rowen.scheduler.world.assembly import assemble
from rowen.scheduler.world.facts import (
    HarvestFacts,
    NodeFacts,
    PodFacts,
    ServiceFacts,
    harvest_facts,
    node_facts,
    pod_facts,
    read_job,
    service_facts,
)
from rowen.scheduler.world.storage import Storage

_SILENT_SECONDS = WATCH_SECONDS + 15.0
_HEAR_SECONDS = 1.0
_LISTING_SECONDS = 30.0
_RELISTING_SECONDS = 60.0
"""Least time between two lists of reports that do not arrive by themselves."""
_PROBE_SECONDS, _PROBE_TIMEOUT_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 3.0, 10.0
_MOST_NAMED = 10

T = TypeVar("T")

log = structlog.get_logger()


class Cluster:
    """Informers of everything that decisions rest on. `changed` is called when a decision may change.

    The nodes' heartbeats are in `agent_namespace`; those follow one another that are no more than `lease_seconds`
    apart. `clock` gives Unix seconds.
    """

    def __init__(
        self,
        client: Client,
        agent_namespace: str,
        changed: Callable[[], None],
        clock: Callable[[], float],
        lease_seconds: float,
    ) -> None:
        def informer(resource: Resource, parse: Callable[[Raw], T | None]) -> Informer[T]:
            return Informer(client, resource, parse, lambda _old, _new: changed())

        self.jobs: Informer[JobView] = informer(OFFLINE_JOBS, read_job)
        self.harvests: Informer[HarvestFacts] = informer(NODE_HARVESTS, harvest_facts)
        self.services: Informer[ServiceFacts] = informer(ONLINE_SERVICES, service_facts)
        self.nodes: Informer[NodeFacts] = informer(NODES, node_facts)
        # Pods of a whole cluster change all the time: the next regular pass is early enough for them.
        self.pods: Informer[PodFacts] = Informer(client, PODS, pod_facts)
        # That a node lives on changes no decision; that it is back is early enough in the next regular pass.
        self.beats: Informer[Beat] = Informer(client, LEASES, read_beat, namespace=agent_namespace)
        self._informers: tuple[Informer[Any], ...] = (
            self.jobs, self.harvests, self.services, self.nodes, self.pods, self.beats
        )  # fmt: skip
        self._storage = Storage(client, changed)
        self._clock, self._lease_seconds = clock, lease_seconds
        self._hearing = Hearing()
        self._views: Mapping[str, NodeView] = {}
        self._answered = self._relisted = float("-inf")

    async def run(self) -> None:
        """Keeps all informers until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (*self._informers, *self._storage.informers):
                group.create_task(informer.run())
            group.create_task(self._listen())

    def current(self) -> bool:
        """Whether every informer has heard of the API server lately; otherwise nothing may be decided."""
        silent = max(informer.silent_seconds() for informer in self._informers)
        return max(silent, self._storage.silent_seconds()) <= _SILENT_SECONDS

    async def refresh(self) -> list[str]:
        """Lists again what withdrawals rest on; returns the resources that could not be listed."""
        informers: dict[str, Informer[Any]] = {
            "offlinejobs": self.jobs,
            "nodeharvests": self.harvests,
            "leases": self.beats,
            "nodes": self.nodes,
            "pods": self.pods,
        }
        listed = await asyncio.gather(*(_listed(name, informer) for name, informer in informers.items()))
        return [name for name, well in zip(informers, listed, strict=True) if not well]

    def snapshot(self, now: float) -> Snapshot:
        """The cluster now."""
        self._hear(now)
        volumes = self._storage.volumes()
        snapshot = assemble(
            self._storage.limited(self.jobs.values(), volumes),
            self.harvests.values(),
            self.nodes.values(),
            self.pods.values(),
            self.services.values(),
            self._hearing,
            self._views,
            volumes,
        )
        self._views = snapshot.nodes
        return snapshot

    def stalled(self, seconds: float) -> None:
        """Tells that for so long, until now, nothing could be heard for computing."""
        now = self._clock()
        self._hearing = stalled(self._hearing, now - seconds, now)

    def _hear(self, now: float) -> None:
        beats = {beat.node: beat.renewed for beat in self.beats.values()}
        reports = {found.node: found.reported for found in self.harvests.values() if found.reported is not None}
        contact = now - self._silent_seconds()
        self._hearing = advanced(self._hearing, beats, reports, contact, now, self._lease_seconds)

    def _silent_seconds(self) -> float:
        """Seconds without a sign that heartbeats would be heard."""
        heard = min(self.beats.silent_seconds(), self.harvests.silent_seconds())
        return min(heard, time.monotonic() - self._answered)

    async def _listen(self) -> None:
        """Notes what is heard, pass or no pass. Where assignments depend on heartbeats and none come, it asks.

        A silent cluster and an API server that is away look alike: only an answer tells that the nodes are silent.
        """
        pause = _HEAR_SECONDS
        while True:
            await asyncio.sleep(pause)
            silent = self._silent_seconds() >= _PROBE_SECONDS
            asked = silent and any(job.placement for job in self.jobs.values())
            pause = _HEAR_SECONDS if not asked or await self._answers() else min(_LONGEST_PAUSE_SECONDS, 2.0 * pause)
            self._hear(self._clock())
            await self._ask_for_reports()

    async def _ask_for_reports(self) -> None:
        """Lists the reports anew where nodes live on and theirs do not arrive: that watch may be deaf."""
        late = untold(self._hearing, self._clock(), self._lease_seconds)
        if not late or time.monotonic() - self._relisted < _RELISTING_SECONDS:
            return
        self._relisted = time.monotonic()
        log.warning("reports of nodes that are there do not arrive", nodes=sorted(late)[:_MOST_NAMED], count=len(late))
        if await _listed("nodeharvests", self.harvests):
            self._hear(self._clock())

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                await self.beats.probe()
        except (KubeError, TimeoutError) as error:
            log.warning("the API server does not answer", error=str(error) or type(error).__name__)
            return False
        self._answered = time.monotonic()
        return True


async def _listed(resource: str, informer: Informer[Any]) -> bool:
    try:
        async with asyncio.timeout(_LISTING_SECONDS):
            await informer.refresh()
    except (KubeError, TimeoutError) as error:
        log.warning("cannot be listed", resource=resource, error=str(error) or type(error).__name__)
        return False
    return True
