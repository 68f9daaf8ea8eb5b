"""Which assignments cannot stay, and which fall short of their SLA."""

from collections.abc import Collection, Iterator

from rowen.scheduler.history import History
from rowen.scheduler.monitor.disruption import spared
from rowen.scheduler.monitor.lease import Loss, loss, not_started, silence, unseated, violation
from rowen.scheduler.monitor.surplus import surplus
from rowen.scheduler.occupancy import pod_of
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView, Placement, Snapshot


def overdue(snapshot: Snapshot, now: float, policy: Policy) -> tuple[frozenset[str], frozenset[str]]:
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


def taken_away(
    snapshot: Snapshot, history: History, lost: Collection[str], now: float, policy: Policy
) -> dict[JobKey, Loss]:
    """What its user, its node, its device or its owner has taken from a job. `lost`: nodes whose lease has run out."""
    losses: dict[JobKey, Loss] = {}
    for job, placement in _held(snapshot):
        node, pod = snapshot.nodes.get(placement.node), pod_of(job, snapshot)
        found = loss(
            job, placement, node, pod, history, now, policy,
            listening=snapshot.listening, overdue=placement.node in lost,
        )  # fmt: skip
        # That no pod starts where the node, the device or the seat is gone is a consequence: the cause is told.
        found = found or unseated(job, placement, node) or not_started(job, node, pod)
        if found is not None:
            losses[job.uid] = found
    return losses | surplus(snapshot, (each for each in _held(snapshot) if each[0].uid not in losses))


def violations(
    snapshot: Snapshot, held: Collection[JobKey], history: History, now: float, policy: Policy
) -> dict[JobKey, Loss]:
    """The jobs of these that fall short of their SLA, in the queue's order."""
    found = {uid: violation(snapshot.jobs[uid], history, now, policy) for uid in held}
    short = {uid: lost for uid, lost in found.items() if lost is not None}
    return {uid: short[uid] for uid in sorted(short, key=lambda uid: snapshot.jobs[uid].order)}
