"""One pass: from a snapshot and the history to what shall be done with every job."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

from rowen.crds.common import find_condition
from rowen.scheduler.history import History
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff, BackoffKey, ahead, next_backoff
from rowen.scheduler.monitor.disruption import spared
from rowen.scheduler.monitor.lease import Loss, Reason, loss, not_started, renewed, silence, violation
from rowen.scheduler.monitor.surplus import surplus
from rowen.scheduler.occupancy import devices_of, pod_of
from rowen.scheduler.placement.choice import choose, claim_of
from rowen.scheduler.placement.claims import Claim
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet import Fleet
from rowen.scheduler.placement.memory_words import above_all_devices, gib, never_fits
from rowen.scheduler.placement.request import Candidate, Choice, Request, rate_told
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView, NodeView, Placement, PodView, Snapshot

_BACKED_OFF = frozenset(
    {Reason.SLA_VIOLATED, Reason.PATTERN_CHANGED, Reason.NODE_LOST, Reason.DEVICE_GONE, Reason.NOT_STARTED}
)
"""Losses that may come back at once, so the node has to wait; the others are somebody's wish."""

Shape = tuple[int, int, float | None, float, int, Constraints, tuple[tuple[str, float], ...]]
"""What decides whether a job fits, back-offs apart.

Devices, memory, SLA, least prediction, priority, constraints, rates.
"""


class Action(StrEnum):
    """What happens to a job."""

    KEEP = "keep"
    PLACE = "place"
    REVOKE = "revoke"
    WAIT = "wait"
    HOLD = "hold"
    """Not in the queue: suspended, finished or being deleted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happens to one job, and why."""

    job: JobView
    action: Action
    message: str
    placement: Placement | None = None
    loss: Loss | None = None
    candidates: tuple[Candidate, ...] = ()
    fraction: float | None = None
    """Predicted now, on the devices that it holds."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass decided."""

    outcomes: tuple[Outcome, ...] = ()
    backoffs: Mapping[BackoffKey, Backoff] = field(default_factory=dict)
    """All back-offs, with those that this pass began."""
    waited_for: frozenset[str] = frozenset()
    """Overdue nodes that are not taken for lost yet, since most nodes are silent at once."""

    def outcome(self, uid: JobKey) -> Outcome | None:
        """What happens to the job of that UID."""
        return next((outcome for outcome in self.outcomes if outcome.job.uid == uid), None)


def decide(snapshot: Snapshot, history: History, now: float, policy: Policy) -> Decision:
    """Decides on every job: first what stays, then who of the waiting goes where."""
    # 1. Withdraw what its node, its device, its owner or the SLA monitor has taken away.
    lost_nodes, waited_for = _overdue(snapshot, now, policy)
    losses = _losses(snapshot, history, lost_nodes, now, policy)
    # 2. Enter what stays, and every pod that still holds slots, into the fleet.
    fleet, held = build_fleet(snapshot, history, losses, now, policy)
    # 3. Place the waiting jobs in order; each sees what the ones before it took.
    backoffs, waits = dict(history.backoffs), ahead(history.backoffs, now)
    outcomes: list[Outcome] = []
    known: dict[Shape, Choice] = {}
    queue = [job for job in snapshot.jobs.values() if job.uid not in held and not _told_to_be_over(job)]
    for job in sorted(queue, key=lambda job: job.order):
        lost = losses.get(job.uid)
        if lost is not None:
            outcomes.append(_revoke(job, lost, backoffs, now, policy))
        elif job.finished or job.suspended or job.deleting:
            outcomes.append(_hold(job))
        elif job.placement is None:
            outcomes.append(_place(job, fleet, history, waits.get(job.uid, {}), known, now, policy))
    # 4. What stays is told last, when every newcomer has taken its share.
    for uid, (placement, claim) in held.items():
        outcomes.append(_keep(snapshot.jobs[uid], placement, fleet, claim, silent=placement.node in waited_for))
    return Decision(tuple(outcomes), backoffs, waited_for)


def _overdue(snapshot: Snapshot, now: float, policy: Policy) -> tuple[frozenset[str], frozenset[str]]:
    """The nodes whose lease has run out: those that are lost, and those that are waited for.

    A node that has been removed is not waited for: that it is gone has been heard.
    """
    silences: dict[str, float] = {}
    for _, placement in _held(snapshot):
        silent = silence(placement, snapshot.nodes.get(placement.node), snapshot.listening, now)
        silences[placement.node] = min(silent, silences.get(placement.node, silent))
    waited_for = spared({name: silent for name, silent in silences.items() if name in snapshot.nodes}, policy)
    limit = policy.lease_seconds + policy.lease_grace_seconds
    return frozenset(name for name, silent in silences.items() if silent > limit) - waited_for, waited_for


def _held(snapshot: Snapshot) -> Iterator[tuple[JobView, Placement]]:
    """The jobs that have an assignment to lose."""
    for job in snapshot.jobs.values():
        if job.placement is not None and not job.finished and not job.deleting:
            yield job, job.placement


def _losses(
    snapshot: Snapshot, history: History, lost: Collection[str], now: float, policy: Policy
) -> dict[JobKey, Loss]:
    losses: dict[JobKey, Loss] = {}
    violators: list[tuple[JobView, Placement, Loss]] = []
    for job, placement in _held(snapshot):
        node, pod = snapshot.nodes.get(placement.node), pod_of(job, snapshot)
        found = loss(
            job, placement, node, pod, history, now, policy,
            listening=snapshot.listening, overdue=placement.node in lost,
        )  # fmt: skip
        # That no pod starts where the node or the device is gone is a consequence: the cause is told.
        found = found or not_started(job, node, pod)
        violated = None if found else violation(job, history, now, policy)
        if found is not None:
            losses[job.uid] = found
        elif violated is not None:
            violators.append((job, placement, violated))
    losses |= _one_per_device(violators)
    return losses | surplus(snapshot, (each for each in _held(snapshot) if each[0].uid not in losses))


def _one_per_device(violators: Iterable[tuple[JobView, Placement, Loss]]) -> dict[JobKey, Loss]:
    """Of several violators that share a device only the last in the queue's order goes: the others may recover."""
    taken: set[tuple[str, str]] = set()
    chosen: dict[JobKey, Loss] = {}
    for job, placement, found in sorted(violators, key=lambda violator: violator[0].order, reverse=True):
        devices = {(placement.node, id_) for id_ in placement.devices}
        if not devices & taken:
            chosen[job.uid] = found
        taken |= devices
    return chosen


def build_fleet(
    snapshot: Snapshot, history: History, gone: Iterable[JobKey], now: float, policy: Policy
) -> tuple[Fleet, dict[JobKey, tuple[Placement, Claim]]]:
    """The fleet with every claim, and the assignments that stay. `gone` are the jobs that lose theirs."""
    fleet = Fleet(snapshot.nodes, now, policy)
    without = set(gone)
    held: dict[JobKey, tuple[Placement, Claim]] = {}
    entered: set[str] = set()
    assigned = (job for job in snapshot.jobs.values() if job.placement is not None and not job.finished)
    for job in sorted(assigned, key=lambda job: job.order):
        if job.placement is None or job.uid in without:
            continue
        node, pod = snapshot.nodes.get(job.placement.node), pod_of(job, snapshot)
        placement = renewed(job.placement, node, pod, now, policy)
        rate = _rate(history.rates.get(job.workload, {}), node, placement.devices)
        claim = claim_of(job, placement.node, placement.devices, history.need(job.workload, job.sla), rate)
        fleet.add(claim)
        entered.add(placement.id)
        if not job.deleting:
            held[job.uid] = placement, claim
    for pod in snapshot.pods:
        if pod.assignment not in entered:
            _add_pod(fleet, snapshot, pod)
    return fleet, held


def _rate(rates: Mapping[str, float], node: NodeView | None, devices: Iterable[str]) -> float:
    """The rate of a job on devices that it holds."""
    views = filter(None, map(node.device, devices)) if node is not None and rates else ()
    return min((rates.get(view.type, 1.0) for view in views), default=1.0)


def _add_pod(fleet: Fleet, snapshot: Snapshot, pod: PodView) -> None:
    """A pod that holds slots without an assignment: one on its way out, or a stranger's."""
    node = snapshot.nodes.get(pod.node)
    if node is not None:
        name = f"{pod.namespace}/{pod.name}"
        fleet.add(Claim(f"pod:{name}", f"pod {name}", pod.node, devices_of(node, pod), pod.slots, pod.memory))


def _revoke(job: JobView, lost: Loss, backoffs: dict[BackoffKey, Backoff], now: float, policy: Policy) -> Outcome:
    key = backoff_key(job, lost)
    if key is not None:
        backoffs[key] = next_backoff(backoffs.get(key), lost.reason, key[1], now, policy)
    return Outcome(job, Action.REVOKE, lost.message, loss=lost)


def backoff_key(job: JobView, lost: Loss) -> BackoffKey | None:
    """What the job keeps away from after the loss; None where it may come back at once."""
    if job.placement is None or lost.reason not in _BACKED_OFF:
        return None
    return job.uid, EVERY_NODE if lost.everywhere else job.placement.node


def _told_to_be_over(job: JobView) -> bool:
    """Whether the job has finished and its status says so: nothing is left to decide."""
    if not job.finished or job.placement is not None:
        return False
    told = find_condition(job.status.conditions, "Placed")
    return told is not None and (told.reason, told.observed_generation) == ("Finished", job.generation)


def _hold(job: JobView) -> Outcome:
    if job.finished:
        return Outcome(job, Action.HOLD, "the job has finished")
    return Outcome(job, Action.HOLD, "the job is being deleted" if job.deleting else "spec.suspend is set")


def _keep(job: JobView, placement: Placement, fleet: Fleet, claim: Claim, *, silent: bool) -> Outcome:
    fraction = fleet.fraction(claim)
    place = f"{placement.node}/{'+'.join(placement.devices)}"
    message = f"placed on {place}: predicted {placement.predicted:.2f} of its throughput alone"
    message += _memory_told(job, fleet)
    if silent:
        message += "; the node is silent, as most nodes are, so it is waited for"
    return Outcome(job, Action.KEEP, message, placement=placement, fraction=fraction)


def _place(
    job: JobView,
    fleet: Fleet,
    history: History,
    backoffs: Mapping[str, Backoff],
    known: dict[Shape, Choice],
    now: float,
    policy: Policy,
) -> Outcome:
    """Places one job. A request like one that was refused before is refused alike: capacity only shrinks."""
    request = request_of(job, fleet, history, backoffs)
    rates = tuple(request.rates.items())
    shape = (job.devices, job.memory, job.sla, request.need, job.priority, job.constraints, rates)
    choice = known.get(shape) if not request.backoffs else None
    if choice is None:
        choice = choose(request, fleet, policy)
        if choice.chosen is None and not request.backoffs:
            known[shape] = choice
    if choice.chosen is None:
        return Outcome(job, Action.WAIT, _refused(job, choice, fleet), candidates=choice.candidates)
    best = choice.chosen
    placement = _placement(job, best, now, snapshot_time(fleet, best.node, now), policy)
    fleet.add(claim_of(job, best.node, best.devices, request.need, best.rate))
    candidates = (replace(best, chosen=True), *(other for other in choice.candidates if other is not best))
    message = (
        f"placed on {best.place}: predicted {best.prediction.fraction:.2f} of its throughput alone "
        f"(idle {best.prediction.idle:.2f} x sharing {best.prediction.sharing:.2f}){rate_told(best.rate)}"
        f"{_memory_told(job, fleet)}"
    )
    return Outcome(job, Action.PLACE, message, placement, None, candidates, best.prediction.fraction)


def _memory_told(job: JobView, fleet: Fleet) -> str:
    """What it has for itself and what it may have, where these differ."""
    if not job.pool:
        return ""
    most = gib(job.memory + job.pool)
    told = f"; {gib(job.memory)} of memory of its own, up to {most} with the device's pool"
    return told + above_all_devices(job, fleet.largest)


def request_of(job: JobView, fleet: Fleet, history: History, backoffs: Mapping[str, Backoff]) -> Request:
    """What the job asks for; its margin covers the predictor's error for its class. `backoffs`: the job's, by node."""
    known = {place: backoff for place, backoff in backoffs.items() if place == EVERY_NODE or place in fleet.number}
    margin = history.need(job.workload, job.sla) - (job.sla or 0.0)
    return Request(job, margin, known, history.rates.get(job.workload, {}))


def snapshot_time(fleet: Fleet, node: str, now: float) -> float:
    """When the node was heard last: the start of a new lease."""
    heard = fleet.views[fleet.number[node]].heard
    return now if heard is None else min(heard, now)


def _placement(job: JobView, best: Candidate, now: float, heard: float, policy: Policy) -> Placement:
    digest = sha256(f"{job.uid} {best.place} {now:.6f}".encode()).hexdigest()
    return Placement(
        id=digest[:16],
        node=best.node,
        devices=best.devices,
        predicted=best.prediction.fraction,
        time=now,
        renewed=heard,
        duration=policy.lease_seconds,
        tenants=round(1.0 / best.prediction.sharing),
    )


def _refused(job: JobView, choice: Choice, fleet: Fleet) -> str:
    """What can never be comes before what is in the way now."""
    largest, widest = fleet.largest, fleet.widest
    if largest is None or widest is None:
        return "no node reports a harvested device"
    if job.devices > len(widest.by_id):
        most = f"the node with most, {widest.name}, has {len(widest.by_id)}"
        return f"it can never fit: spec.devices is {job.devices}, {most}"
    best = choice.candidates[0]
    never = never_fits(job, largest, fleet.roomiest, fleet.unknown)
    told = never or f"no candidate holds: {best.place}: {best.refusal}"
    return told + above_all_devices(job, largest)
