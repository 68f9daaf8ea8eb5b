"""The scheduler's view of the cluster: one mirror per kind, joined into snapshots."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import structlog
from kr8s.asyncio import Api

from rowen.crds.names import API_VERSION
from rowen.scheduler.assembly import assemble
from rowen.scheduler.facts import (
    HarvestFacts,
    NodeFacts,
    PodFacts,
    ServiceFacts,
    harvest_facts,
    job_view,
    node_facts,
    pod_facts,
    service_facts,
)
from rowen.scheduler.hearing import Hearing, advanced, stalled
from rowen.scheduler.mirror import FAILURES, WATCH_SECONDS, Mirror
from rowen.scheduler.snapshot import JobView, Snapshot

_SILENT_SECONDS = WATCH_SECONDS + 15.0
_HEAR_SECONDS = 1.0
_LISTING_SECONDS = 30.0
_PROBE_SECONDS, _PROBE_TIMEOUT_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 3.0, 10.0

log = structlog.get_logger()


class Cluster:
    """Mirrors of everything that decisions rest on. `changed` is called when a decision may change.

    `clock` gives Unix seconds. Reports of a node follow one another that are no more than `lease_seconds` apart.
    """

    def __init__(self, api: Api, changed: Callable[[], None], clock: Callable[[], float], lease_seconds: float) -> None:
        self.jobs: Mirror[JobView] = Mirror(api, API_VERSION, "offlinejobs", job_view, changed)
        self.harvests: Mirror[HarvestFacts] = Mirror(api, API_VERSION, "nodeharvests", harvest_facts, changed)
        self.services: Mirror[ServiceFacts] = Mirror(api, API_VERSION, "onlineservices", service_facts, changed)
        self.nodes: Mirror[NodeFacts] = Mirror(api, "v1", "nodes", node_facts, changed)
        # Pods of a whole cluster change all the time: the next regular pass is early enough for them.
        self.pods: Mirror[PodFacts] = Mirror(api, "v1", "pods", pod_facts, lambda: None)
        self._clock, self._lease_seconds = clock, lease_seconds
        self._hearing = Hearing()
        self._answered = float("-inf")

    async def run(self) -> None:
        """Keeps all mirrors until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in (self.jobs, self.harvests, self.services, self.nodes, self.pods):
                group.create_task(mirror.run())
            group.create_task(self._listen())

    def current(self) -> bool:
        """Whether every mirror has heard of the API server lately; otherwise nothing may be decided."""
        mirrors = (self.jobs, self.harvests, self.services, self.nodes, self.pods)
        return max(mirror.silent_seconds() for mirror in mirrors) <= _SILENT_SECONDS

    async def refresh(self) -> list[str]:
        """Lists again what withdrawals rest on; returns the resources that could not be listed."""
        mirrors: dict[str, Mirror[Any]] = {
            "offlinejobs": self.jobs,
            "nodeharvests": self.harvests,
            "nodes": self.nodes,
            "pods": self.pods,
        }
        listed = await asyncio.gather(*(_listed(name, mirror) for name, mirror in mirrors.items()))
        return [name for name, well in zip(mirrors, listed, strict=True) if not well]

    def snapshot(self, now: float) -> Snapshot:
        """The cluster now."""
        self._hear(now)
        return assemble(
            self.jobs.values(),
            self.harvests.values(),
            self.nodes.values(),
            self.pods.values(),
            self.services.values(),
            self._hearing,
        )

    def stalled(self, seconds: float) -> None:
        """Tells that for so long, until now, nothing could be heard for computing."""
        now = self._clock()
        self._hearing = stalled(self._hearing, now - seconds, now)

    def _hear(self, now: float) -> None:
        stamps = {found.node: found.reported for found in self.harvests.values() if found.reported is not None}
        contact = now - self._silent_seconds()
        self._hearing = advanced(self._hearing, stamps, contact, now, self._lease_seconds)

    def _silent_seconds(self) -> float:
        """Seconds without a sign that reports would be heard."""
        return min(self.harvests.silent_seconds(), time.monotonic() - self._answered)

    async def _listen(self) -> None:
        """Notes what is heard, pass or no pass. Where assignments depend on reports and none come, it asks.

        A silent cluster and an API server that is away look alike: only an answer tells that the nodes are silent.
        """
        pause = _HEAR_SECONDS
        while True:
            await asyncio.sleep(pause)
            silent = self._silent_seconds() >= _PROBE_SECONDS
            asked = silent and any(job.placement for job in self.jobs.values())
            pause = _HEAR_SECONDS if not asked or await self._answers() else min(_LONGEST_PAUSE_SECONDS, 2.0 * pause)
            self._hear(self._clock())

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                await self.harvests.probe()
        except (*FAILURES, TimeoutError) as error:
            log.warning("the API server does not answer", error=str(error) or type(error).__name__)
            return False
        self._answered = time.monotonic()
        return True


async def _listed(resource: str, mirror: Mirror[Any]) -> bool:
    try:
        async with asyncio.timeout(_LISTING_SECONDS):
            await mirror.refresh()
    except (*FAILURES, TimeoutError) as error:
        log.warning("cannot be listed", resource=resource, error=str(error) or type(error).__name__)
        return False
    return True
