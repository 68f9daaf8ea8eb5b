"""What is done for jobs that fall short of their SLA: an eviction has to help, since it costs work.

1. Where neighbours that were promised nothing, or fall short themselves and come later in the queue, are what is in the
   way, they go: the last in the queue's order first, no more of them than it takes.
2. Else the job goes, if there is a place on another node that keeps its SLA with its margin. Such a place is taken for
   one job only.
3. Else it stays and its SLA is told as missed: what it gets is more than nothing. Only one that makes nothing at all
   goes in any case.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rowen.scheduler.history import History
from rowen.scheduler.monitor.lease import Loss, Reason
from rowen.scheduler.occupancy import attached, hangs, pod_of
from rowen.scheduler.placement.census import Held, pod_key
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.search.choice import claimed
from rowen.scheduler.placement.search.request import LEAST_FRACTION, Choice, Request
from rowen.scheduler.snapshot import JobKey, JobView, Snapshot

Search = Callable[[JobView, str], tuple[Request, Choice]]
"""Looks for a place for a job on any node but that one."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """Who goes, and who stays although he falls short."""

    losses: dict[JobKey, Loss] = field(default_factory=dict)
    stays: dict[JobKey, Choice | None] = field(default_factory=dict)
    """With what was found of other places; None: a neighbour makes way."""


def remedies(
    short: Mapping[JobKey, Loss],
    snapshot: Snapshot,
    held: Held,
    history: History,
    now: float,
    fleet: Fleet,
    search: Search,
) -> Remedies:
    """What is done for the jobs that fall `short`, who are in the queue's order. Places that are found are taken."""
    found = Remedies()
    leaving = _leaving(snapshot, now)
    for uid, lost in short.items():
        if uid in found.losses:
            continue
        job, (placement, claim) = snapshot.jobs[uid], held[uid]
        measured = history.tracks[uid].fraction or 0.0
        gone = leaving | found.losses.keys()
        if measured < LEAST_FRACTION:
            found.losses[uid] = lost
            continue
        expected = fleet.standing(claim, without=_idle(claim, snapshot, fleet)).fraction
        pace = measured / expected if expected > 0.0 else 0.0
        way = _way(job, claim, pace, _yielding(job, claim, snapshot, held, short, fleet), gone, fleet)
        if way is not None:
            for other in way:
                found.losses[other] = _made_way(other, job, measured, held)
            found.stays[uid] = None
            continue
        request, choice = search(job, placement.node)
        best = choice.chosen
        if best is None:
            found.stays[uid] = choice
        else:
            found.losses[uid] = lost
            fleet.add(claimed(request, best))
    return found


def _leaving(snapshot: Snapshot, now: float) -> set[str]:
    """Keys of those who were withdrawn before or are being deleted; not for ever: a pod may hang in its deletion."""
    found = {pod_key(pod) for pod in snapshot.pods if pod.job is not None and not hangs(pod, now)}
    for uid, job in snapshot.jobs.items():
        if job.deleting:
            pod = pod_of(job, snapshot)
            found |= set() if pod is not None and hangs(pod, now) else {uid}
    return found


def _idle(claim: Claim, snapshot: Snapshot, fleet: Fleet) -> set[str]:
    """Keys of the neighbours that take nothing yet: what was measured was measured without them."""
    node = snapshot.nodes.get(claim.node)
    pods = {pod_key(pod): pod for pod in snapshot.pods_by_node.get(claim.node, ())}
    for job in snapshot.jobs_by_node.get(claim.node, ()):
        pod = pod_of(job, snapshot)
        if pod is not None:
            pods[job.uid] = pod
    taking = {key for key, pod in pods.items() if node is not None and attached(node, pod)}
    return set(fleet.neighbours(claim)) - taking


def _yielding(
    job: JobView, claim: Claim, snapshot: Snapshot, held: Held, short: Collection[JobKey], fleet: Fleet
) -> list[JobView]:
    """The neighbours that go before the job does, the first to go first."""
    neighbours = [snapshot.jobs[key] for key in fleet.neighbours(claim) if key in held]
    yielding = (
        other
        for other in neighbours
        if (other.sla is None and other.priority <= job.priority) or (other.uid in short and other.order > job.order)
    )
    return sorted(yielding, key=lambda other: other.order, reverse=True)


def _way(
    job: JobView, claim: Claim, pace: float, yielding: Iterable[JobView], gone: Collection[str], fleet: Fleet
) -> list[JobKey] | None:
    """Those who have to go so that the job keeps its SLA; None where that is not enough.

    `pace`: what was measured over what is predicted beside those who took something meanwhile. Nobody where those who
    leave already are enough.
    """

    def enough(without: Collection[str]) -> bool:
        after = fleet.standing(claim, without={*gone, *without} - {claim.key}).fraction
        return pace * after >= (job.sla or 0.0)

    chosen: list[JobKey] = []
    for other in (None, *yielding):
        chosen += [other.uid] if other is not None else []
        if enough(chosen):
            return _no_more(chosen, enough)
    return None


def _no_more(chosen: list[JobKey], enough: Callable[[Collection[str]], bool]) -> list[JobKey]:
    """Without those who need not go: of a job in lockstep another device may be what holds it up."""
    needed = list(chosen)
    for key in chosen:
        others = [other for other in needed if other != key]
        needed = others if enough(others) else needed
    return needed


def _made_way(other: JobKey, job: JobView, measured: float, held: Held) -> Loss:
    placement, _ = held[other]
    place = f"{placement.node}/{'+'.join(placement.devices)}"
    told = f"{place}: made way for {job.label}, which measured {measured:.2f} < its SLA {job.sla:.2f} beside it"
    return Loss(Reason.MADE_WAY, told)
