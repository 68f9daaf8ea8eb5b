"""The nodes on which a pod's volumes can be used, as their claims and kube-scheduler have it. Pure.

A claim that is not bound limits nothing, nor does one that is not there: kube-scheduler has the last word on both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rowen.scheduler.placement.constraints import VOLUME_CLAIM, Term, VolumeLimit

ClaimKey = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    volume: str = ""
    """Its PersistentVolume; empty where none is chosen yet."""
    bound: bool = False
    """Whether the volume is its own; one that a user has named may not be."""
    lost: bool = False
    """Whether its volume is gone, as its phase says."""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    terms: tuple[Term, ...] | None = None
    """One of them has to hold on a node; None where it can be used on all."""


@dataclass(frozen=True)
class Volumes:
    """The claims and volumes of a cluster."""

    claims: Mapping[ClaimKey, VolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)

    def limits(self, namespace: str, names: Iterable[str]) -> tuple[VolumeLimit, ...]:
        """What these claims ask of a node, what no node can give first. Claims that ask for the same count once."""
        claims = (self.claims.get((namespace, name)) for name in names)
        found = [limit for claim in claims if claim is not None and (limit := self._limit(claim)) is not None]
        return tuple(dict.fromkeys(sorted(found, key=lambda limit: not limit.fault)))

    def _limit(self, claim: VolumeClaim) -> VolumeLimit | None:
        # A volume that is only named may be another's, and its name anything: nothing is told of it.
        owned = claim.bound or claim.lost
        name = f"{VOLUME_CLAIM}{claim.name}" + (f" (volume {claim.volume})" if owned else "")
        if claim.deleting:
            return VolumeLimit((), name, "is being deleted")
        if claim.lost:
            return VolumeLimit((), name, "has lost its volume, which is gone")
        if not claim.bound:
            return None
        volume = self.volumes.get(claim.volume)
        if volume is None:
            return VolumeLimit((), name, "is bound to a volume of which nothing is known yet")
        if volume.terms is None:
            return None
        return VolumeLimit(volume.terms, name, "" if volume.terms else "can be used on no node: its term is empty")


NO_VOLUMES = Volumes()
"""Where nothing is known of them: nothing is limited."""
