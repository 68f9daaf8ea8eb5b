"""The cluster's volumes and the claims on them, as far as they say where a job can run."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rowen.kube.client import Client, Raw
from rowen.kube.informer import Informer
from rowen.kube.resource import Resource
from rowen.scheduler.placement.constraints import terms_of
from rowen.scheduler.placement.volumes import NO_VOLUMES, Volume, VolumeClaim, Volumes
from rowen.scheduler.snapshot import JobKey, JobView

WITHHELD_SECONDS = 30.0
"""A right that is withheld for so long is not to be had; an API server that has just started withholds every one."""
CLAIMS = Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
VOLUMES = Resource("PersistentVolume", "v1", "persistentvolumes")


def read_claim(raw: Raw) -> VolumeClaim:
    """Reads a PersistentVolumeClaim."""
    meta, phase = raw["metadata"], raw.get("status", {}).get("phase")
    return VolumeClaim(
        namespace=meta["namespace"],
        name=meta["name"],
        volume=raw["spec"].get("volumeName") or "",
        bound=phase == "Bound",
        lost=phase == "Lost",
        deleting="deletionTimestamp" in meta,
    )


def read_volume(raw: Raw) -> Volume:
    """Reads a PersistentVolume."""
    affinity = raw["spec"].get("nodeAffinity") or {}
    return Volume(raw["metadata"]["name"], terms_of(affinity.get("required")))


class Storage:
    """Copies of claims and volumes. `changed` is called when they say something else.

    They are worth a right to read them, but not a scheduler: without it for `WITHHELD_SECONDS` they limit nothing.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._claims: Informer[VolumeClaim] = Informer(client, CLAIMS, read_claim, self._news)
        self._volumes: Informer[Volume] = Informer(client, VOLUMES, read_volume, self._news)
        self._read: Volumes | None = None
        """What the copies hold; None where they have changed since."""
        self._limited: tuple[Volumes, Mapping[JobKey, tuple[JobView, JobView]]] = NO_VOLUMES, {}
        """The jobs as they are and as they keep to these volumes."""

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """The copies, to be kept."""
        return self._claims, self._volumes

    def silent_seconds(self) -> float:
        """Seconds since the API server was heard last; 0 where nothing is heard for want of the right."""
        return max(0.0 if _withheld(one) else one.silent_seconds() for one in self.informers)

    def volumes(self) -> Volumes:
        """What is known now; the same object until something changes."""
        if any(map(_withheld, self.informers)):
            return NO_VOLUMES
        if self._read is None:
            claims = {(claim.namespace, claim.name): claim for claim in self._claims.values()}
            self._read = Volumes(claims, {volume.name: volume for volume in self._volumes.values()})
        return self._read

    def limited(self, jobs: Iterable[JobView], volumes: Volumes) -> list[JobView]:
        """The jobs, as they keep to the volumes; worked out anew for those alone that have changed."""
        before, known = self._limited
        known = known if before is volumes else {}
        found = {job.uid: _kept(job, volumes, known.get(job.uid)) for job in jobs}
        self._limited = volumes, found
        return [limited for _, limited in found.values()]

    def _news(self, old: object, new: object) -> None:
        if old != new:
            self._read = None
            self._changed()


def _withheld(informer: Informer[Any]) -> bool:
    return informer.lacks_right() and informer.silent_seconds() > WITHHELD_SECONDS


def _kept(job: JobView, volumes: Volumes, known: tuple[JobView, JobView] | None) -> tuple[JobView, JobView]:
    return known if known is not None and known[0] is job else (job, job.within(volumes))
