"""The scheduler's view of the cluster: one mirror per kind, joined into snapshots."""

import asyncio
from collections.abc import Callable

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
from rowen.scheduler.mirror import WATCH_SECONDS, Mirror
from rowen.scheduler.snapshot import JobView, Snapshot

_SILENT_SECONDS = WATCH_SECONDS + 15.0


class Cluster:
    """Mirrors of everything that decisions rest on. `changed` is called when a decision may change."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self.jobs: Mirror[JobView] = Mirror(api, API_VERSION, "offlinejobs", job_view, changed)
        self.harvests: Mirror[HarvestFacts] = Mirror(api, API_VERSION, "nodeharvests", harvest_facts, changed)
        self.services: Mirror[ServiceFacts] = Mirror(api, API_VERSION, "onlineservices", service_facts, changed)
        self.nodes: Mirror[NodeFacts] = Mirror(api, "v1", "nodes", node_facts, changed)
        # Pods of a whole cluster change all the time: the next regular pass is early enough for them.
        self.pods: Mirror[PodFacts] = Mirror(api, "v1", "pods", pod_facts, lambda: None)

    async def run(self) -> None:
        """Keeps all mirrors until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in (self.jobs, self.harvests, self.services, self.nodes, self.pods):
                group.create_task(mirror.run())

    def current(self) -> bool:
        """Whether every mirror has heard of the API server lately; otherwise nothing may be decided."""
        mirrors = (self.jobs, self.harvests, self.services, self.nodes, self.pods)
        return max(mirror.silent_seconds() for mirror in mirrors) <= _SILENT_SECONDS

    async def refresh(self) -> None:
        """Lists again what withdrawals rest on. Raises one of `mirror.FAILURES`."""
        await asyncio.gather(self.jobs.refresh(), self.harvests.refresh(), self.nodes.refresh(), self.pods.refresh())

    def snapshot(self) -> Snapshot:
        """The cluster now."""
        return assemble(
            self.jobs.values(),
            self.harvests.values(),
            self.nodes.values(),
            self.pods.values(),
            self.services.values(),
        )
