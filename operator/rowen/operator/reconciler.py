"""Snapshot, decide, apply: the thin shell around the policies."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from pydantic import ValidationError

from rowen.crds.common import holds
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.objects import CONFLICT, NOT_FOUND
from rowen.operator.adopter import Adopter
from rowen.operator.decision import Decision, Note, Refusal, Trial
from rowen.operator.jobs import policy as job_policy
from rowen.operator.metrics import Metrics
from rowen.operator.pods.owners import controller_of
from rowen.operator.services import policy as service_policy
from rowen.operator.status_change import JOB_FIELDS, SERVICE_FIELDS, status_change
from rowen.operator.turns import Turns
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World
from rowen.operator.world.store import Key, Store

Manifest = Mapping[str, Any]
_log = structlog.get_logger()
_REFUSALS = (400, 403, 422)
_BROKEN_WEBHOOK = "failed calling webhook"
"""Said with code 500, and for as long as the webhook's server does not answer."""
_NO_DRY_RUN = "does not support dry run"
"""Of a webhook, in place of what it would say."""


_MOST_CONFLICTS = 2
"""In a row, that are decided anew at once. After more of them the store may be ahead of the API server for good."""


class _OutdatedError(Exception):
    """The object has changed since it was decided on."""


def _refusal(error: KubeError) -> Refusal:
    """Why there is no child; its request may have been carried out even where no answer came."""
    if isinstance(error, RefusedError):
        return Refusal(error.status, error.message)
    return Refusal(0, f"the API server did not answer: {error}")


def _is_conflict(error: KubeError) -> bool:
    return isinstance(error, RefusedError) and error.status == CONFLICT


def _of_the_trial_alone(error: KubeError) -> bool:
    """Whether it says nothing against the pod: what passes, the name of one that is there, no dry runs."""
    return error.passes or _is_conflict(error) or _NO_DRY_RUN in str(error)


def _judged(refusal: Refusal) -> bool:
    """Whether it was the child that was refused. Pods hold devices while they are tried: any failure is told."""
    return refusal.code in _REFUSALS or refusal.invalid or _BROKEN_WEBHOOK in refusal.message


class Reconciler:
    """Reconciles one object at a time; never two calls for the same key at once."""

    def __init__(
        self, store: Store, world: World, cluster: Cluster, metrics: Metrics, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._world = world
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._turns = Turns()
        self._conflicts: dict[Key, int] = {}
        self._adopter = Adopter(world, cluster)

    async def reconcile(self, key: Key) -> float | None:
        """Reconciles the object. Returns the seconds after which to come back, or None. Raises what went wrong."""
        result = "error"
        try:
            with self._metrics.seconds.labels(key.kind).time():
                seconds = await self._reconcile(key)
            result = "ok"
            self._conflicts.pop(key, None)
            return seconds
        except _OutdatedError:
            result = "outdated"
            self._conflicts[key] = self._conflicts.get(key, 0) + 1
            if self._conflicts[key] > _MOST_CONFLICTS:
                _log.warning("reconcile.outdated", key=str(key), conflicts=self._conflicts[key])
                raise
            # At once, and not with a back-off: what was read last is as new as can be.
            return 0.0
        except ValidationError as error:
            # The API server's schema let something through that the models do not know: nothing to retry.
            result = "invalid"
            _log.error("object.unreadable", key=str(key), error=str(error))
            return None
        except Exception as error:
            _log.warning("reconcile.failed", key=str(key), error=repr(error))
            raise
        finally:
            self._metrics.reconciles.labels(key.kind, result).inc()

    async def _reconcile(self, key: Key) -> float | None:
        await self._adopter.adopt(key, self._clock())
        owner = self._store.get(key)
        decision = self._decide(key, None)
        if decision and decision.trial:
            await self._try(key, decision.trial)
            owner, decision = self._store.get(key), self._decide(key, None)
        if owner is None or decision is None:
            self._turns.ended(key)
            return None
        refusal = await self._apply(key, decision)
        acted = bool(decision.removals) or (bool(decision.children) and refusal is None)
        if refusal:
            owner, decision = self._store.get(key) or owner, self._decide(key, refusal) or decision
        try:
            later = await self._write_status(key, owner, decision)
        except (_OutdatedError, KubeError):
            # What was done is done, and the next decision will not tell of it.
            if acted:
                await self._tell(key, owner, decision)
            raise
        await self._tell(key, owner, decision)
        if decision.delete_object:
            await self._cluster.delete_job(owner)
        times = [seconds for seconds in (decision.requeue_seconds, later) if seconds is not None]
        return min(times, default=None)

    async def _try(self, key: Key, pod: Manifest) -> None:
        refusal = None
        try:
            await self._cluster.try_pod(pod)
        except KubeError as error:
            refusal = None if _of_the_trial_alone(error) else _refusal(error)
        self._world.tried(key, pod["metadata"]["ownerReferences"][0]["uid"], Trial(refusal))

    def _decide(self, key: Key, refusal: Refusal | None) -> Decision | None:
        now = self._clock()
        if key.kind == "OfflineJob":
            job = self._world.job(key, now, refusal)
            return job_policy.decide(job, now) if job else None
        service = self._world.service(key, now, refusal)
        return service_policy.decide(service, now) if service else None

    async def _apply(self, key: Key, decision: Decision) -> Refusal | None:
        """Removes and applies children. Returns the API server's refusal of a child, if any."""
        for removal in decision.removals:
            _log.info("pod.removed", key=str(key), pod=removal.pod, reason=removal.reason, force=removal.force)
            await self._cluster.remove_pod(key.namespace, removal)
        for child in decision.children:
            try:
                stored = await self._put(child)
            except KubeError as error:
                refusal = _refusal(error)
                if child["kind"] != "Pod" and not _judged(refusal):
                    raise
                _log.warning("child.refused", key=str(key), child=child["kind"], error=refusal.message)
                return refusal
            if controller_of(stored) != controller_of(child):
                return Refusal(CONFLICT, f"{child['kind']} {child['metadata']['name']} exists and is not the job's")
            _log.info("child.applied", key=str(key), child=child["kind"], name=child["metadata"]["name"])
            self._store.put(child["kind"], stored)
        return None

    async def _put(self, child: Manifest) -> dict[str, Any]:
        """A pod is made once and never changed; everything else is applied."""
        return await (self._cluster.create_pod(child) if child["kind"] == "Pod" else self._cluster.apply(child))

    async def _write_status(self, key: Key, owner: Manifest, decision: Decision) -> float | None:
        """Writes the status if it changed. Returns the seconds after which a change of figures may be written."""
        if decision.status is None:
            return None
        fields = JOB_FIELDS if key.kind == "OfflineJob" else SERVICE_FIELDS
        change = status_change(owner.get("status") or {}, decision.status, fields)
        finished = holds(decision.status["conditions"], "Finished")
        if finished:
            self._turns.ended(key)
        if change == "None":
            return None
        wait = self._turns.wait_seconds(key, self._clock())
        if change == "Quiet" and wait > 0:
            return wait
        try:
            stored = await self._cluster.write_status(owner, decision.status)
        except RefusedError as error:
            if error.status == CONFLICT:
                await self._read_again(key)
                raise _OutdatedError from error
            if error.status == NOT_FOUND:
                return None
            raise
        if not finished:
            self._turns.wrote(key, self._clock())
        self._store.put(key.kind, stored)
        return None

    async def _read_again(self, key: Key) -> None:
        """Ends a row of conflicts even where the watch is late.

        The next decision rests on what was just read, so only a write within the two calls that follow can refuse it
        again. Others write one object's status every few seconds at most: each waits for answers of its own. Only where
        the API server's versions went back, as after etcd was restored, is what it answers not taken.
        """
        stored = await self._cluster.read(key)
        if stored is not None:
            self._store.put(key.kind, stored)

    async def _tell(self, key: Key, owner: Manifest, decision: Decision) -> None:
        for note in decision.notes:
            await self._post(key, owner, note)

    async def _post(self, key: Key, owner: Manifest, note: Note) -> None:
        """One that is refused is lost: the status that it speaks of is written, and nobody would post it later."""
        try:
            await self._cluster.post(owner, note, self._clock())
        except KubeError as error:
            _log.warning("event.lost", key=str(key), reason=note.reason, error=str(error))
