"""Sees when the kernel had to stop a pod, and says what follows."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.attach.offence import WINDOW, Evict, KernelStop, PodRecord, Process, Reason, Tell, decide
from rowen.node_agent.attach.suspects import Suspects, processes_in, sight
from rowen.node_agent.devices.counts import Offence, TenantCounts

_ARRIVAL_SECONDS = 2.0
"""After a process has attached, what the pod used before may have been its start."""
_REASONS = {Offence.UNACKNOWLEDGED: Reason.UNACKNOWLEDGED, Offence.HANDLER_REPLACED: Reason.HANDLER_REPLACED}


@dataclass
class _Pod:
    offences: dict[object, int] = field(default_factory=dict)
    """Per slot."""
    stops: list[KernelStop] = field(default_factory=list)
    told: dict[Reason, float] = field(default_factory=dict)
    suspects: Suspects = field(default_factory=Suspects)
    attached: frozenset[int] = frozenset()
    arrived: float = 0.0


@dataclass(frozen=True)
class Notice:
    """What is to be done about a pod."""

    pod: PodCgroup
    decision: Tell | Evict


class Watch:
    """Remembers the kernel's stops of the node's pods."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, _Pod] = defaultdict(_Pod)

    def look(
        self, slot: object, pod: PodCgroup, counts: TenantCounts, members: Iterable[int], now: float
    ) -> list[Notice]:
        """Looks at a pod in one slot. `members`: its processes that have attached. `now`: seconds, monotonic."""
        known = self._pods[pod.uid]
        attached = frozenset(members)
        if attached - known.attached:
            known.arrived = now
        known.attached = attached
        known.suspects.look(processes_in(pod.directory) - attached, counts.open_seconds)
        before = known.offences.get(slot, counts.offences)
        known.offences[slot] = counts.offences
        if counts.offences > before:
            known.stops = [stop for stop in known.stops if now - stop.at <= WINDOW]
            known.stops.append(_stop(known, counts, now))
        return [Notice(pod, decision) for decision in _decisions(known, now)]

    def keep(self, uids: Iterable[str]) -> None:
        """Forgets all other pods."""
        for uid in set(self._pods) - set(uids):
            del self._pods[uid]


def _stop(known: _Pod, counts: TenantCounts, now: float) -> KernelStop:
    reason = _REASONS.get(counts.offence) if counts.offence else None
    if reason is not None:
        return KernelStop(now, reason, _offender(counts))
    culprit = known.suspects.culprit(counts.open_seconds)
    if culprit is None and now - known.arrived <= _ARRIVAL_SECONDS:
        # What ran has attached since.
        culprit = Process(max(known.attached, default=0), "", 0.0)
    return KernelStop(now, Reason.OVERDRAWN if culprit is None else Reason.UNATTACHED, culprit)


def _offender(counts: TenantCounts) -> Process | None:
    if counts.offender is None:
        return None
    sighting = sight(counts.offender)
    return Process(counts.offender, sighting.name if sighting else "", counts.open_seconds)


def _decisions(known: _Pod, now: float) -> list[Tell | Evict]:
    found: list[Tell | Evict] = []
    while True:
        decision = decide(PodRecord(tuple(known.stops), dict(known.told)), now)
        if not isinstance(decision, Tell):
            if isinstance(decision, Evict):
                known.stops.clear()
                found.append(decision)
            return found
        known.told[decision.reason] = now
        found.append(decision)
