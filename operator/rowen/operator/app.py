"""The operator: the watch and the listings feed the store and the queue, workers reconcile.

The nodes' heartbeats have a watch of their own, of the agents' namespace alone; one of them changes no decision, and
wakes nobody.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import kopf
import structlog

from rowen.crds.common import holds
from rowen.crds.service.online_service import Harvest, stored_level
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.pauses import pause_seconds
from rowen.operator.metrics import Metrics
from rowen.operator.reconciler import Reconciler
from rowen.operator.settings import Settings
from rowen.operator.workqueue import WorkQueue
from rowen.operator.world import watch
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.resources import JOBS, SERVICES, WATCHED
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Store, key_of

DEAF_SECONDS = 60.0
"""A change that a listing has shown and the watch has not delivered for so long: the watch is deaf."""
RESYNC_MARGIN_SECONDS = 15.0
"""No event and no listing for so long after a listing was due: nothing was heard meanwhile."""
SERVICE_SECONDS = 5.0
"""Reports of a service's nodes are looked at together."""
LONGEST_PAUSE_SECONDS = 10.0
"""Between two listings that fail."""

_log = structlog.get_logger()


class Operator:
    """One operator process."""

    def __init__(
        self, settings: Settings, cluster: Cluster, metrics: Metrics, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._store = Store(groups, clock)
        gap_seconds = settings.resync_seconds + RESYNC_MARGIN_SECONDS
        deadline_seconds = settings.start_deadline_seconds
        self._world = World(self._store, settings.runtime_image, deadline_seconds, gap_seconds, clock)
        self._beats = cluster.beats(settings.agent_namespace, self._world.heard_beat)
        self._queue = WorkQueue(Reconciler(self._store, self._world, cluster, metrics, clock).reconcile)
        self._last_event = clock()
        metrics.event_age.set_function(lambda: self._clock() - self._last_event)

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set. Raises what ends the watch or the workers before that."""
        # kopf ends where no API server answers: it is started when one does.
        await self._resync_until_done()
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(self._cluster.lead(self._settings.namespace, self._work))
            others = [leading, group.create_task(self._resync_forever()), group.create_task(self._beats.run())]
            group.create_task(_end(stop, others))
            await kopf.operator(
                registry=watch.registry(self.on_event, self.is_alive, stop.set),
                settings=watch.settings(),
                clusterwide=True,
                liveness_endpoint=f"http://0.0.0.0:{self._settings.health_port}/healthz",
                stop_flag=stop,
            )
            stop.set()

    async def _work(self) -> None:
        """What is done while this operator holds the lease; without it, it watches and stands by.

        Nothing is decided before all there is has been seen, what another operator did until now included: a job
        without its pods would get a second one.
        """
        with self._metrics.leading.track_inprogress():
            await self._resync_until_done()
            await self._queue.run(self._settings.workers)

    def on_event(self, kind: str, manifest: dict[str, Any], deleted: bool) -> None:
        """Takes an event of the watch in."""
        self._last_event = self._clock()
        self._world.heard_event()
        self._store.saw(kind, manifest)
        concerned = set(self._world.concerned(kind, manifest))
        if deleted:
            self._store.remove(kind, manifest)
        else:
            self._store.put(kind, manifest)
        # A report concerns those whom it named before, and those whom it names now.
        for key in concerned | set(self._world.concerned(kind, manifest)):
            if kind == "NodeHarvest" and key.kind == "OnlineService":
                # It adds up all its devices, and each of their reports comes here.
                self._queue.add_within(key, SERVICE_SECONDS)
            else:
                self._queue.add(key)

    def is_alive(self) -> bool:
        """Whether the watch delivers what listings show."""
        since = self._store.deaf_since()
        return since is None or self._clock() - since <= DEAF_SECONDS

    async def resync(self) -> None:
        """Lists everything, repairs the store, and looks at every object again.

        A kind that is refused keeps no other one from being listed; its error is raised in the end. Raises `KubeError`.
        """
        refusals = []
        for resource in WATCHED:
            try:
                found = await self._cluster.listing(resource, partial(self._store.kept, resource.kind))
                self._store.replace(resource.kind, found)
            except RefusedError as error:
                refusals.append(error)
        try:
            await self._beats.refresh()
        except RefusedError as error:
            refusals.append(error)
        if refusals:
            raise refusals[0]
        self._world.forget()
        self._world.heard_listing()
        for resource in (JOBS, SERVICES):
            for manifest in self._store.all(resource.kind):
                self._queue.add(key_of(resource.kind, manifest))
        self._publish()

    async def _resync_until_done(self) -> None:
        failures = 0
        while True:
            try:
                return await self.resync()
            except KubeError as error:
                _log.warning("resync.failed", error=repr(error))
                self._world.heard_nothing()
                failures += 1
                await asyncio.sleep(pause_seconds(error, failures, first=1.0, most=LONGEST_PAUSE_SECONDS))

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            await self._resync_until_done()

    def _publish(self) -> None:
        jobs = [job.get("status") or {} for job in self._store.all("OfflineJob")]
        self._metrics.count_objects("OfflineJob", Counter(map(_state, jobs)))
        placed = (status for status in jobs if holds(status.get("conditions") or (), "Placed"))
        self._metrics.placed_jobs(Counter((_job_mode(status), _state(status)) for status in placed))
        services = {
            (service["metadata"]["namespace"], service["metadata"]["name"]): service
            for service in self._store.all("OnlineService")
        }
        self._metrics.count_objects("OnlineService", Counter(map(_ready, services.values())))
        self._metrics.guard_levels({name: stored_level(service) for name, service in services.items()})
        self._metrics.services({(*name, _mode(service)) for name, service in services.items()})


async def _end(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Cancels them once: a second time would keep the lease from being given back."""
    await stop.wait()
    for task in tasks:
        task.cancel()


def _state(job: Mapping[str, Any]) -> str:
    """From its status."""
    return str(job.get("state") or "New")


def _job_mode(job: Mapping[str, Any]) -> str:
    """In which it has its place, from its status. One that runs while its engine is idle does not say."""
    return str((job.get("assignment") or {}).get("mode") or "Preempt")


def _mode(service: Any) -> str:
    """In which it is harvested. The API server fills in what its version knows."""
    harvest = (service.get("spec") or {}).get("harvest") or {}
    return str(harvest.get("mode") or Harvest().mode)


def _ready(service: Any) -> str:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return "Ready" if holds(conditions, "Ready") else "NotReady"
