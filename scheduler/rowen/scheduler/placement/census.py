"""Who holds what when a pass begins: the fleet with every claim."""

from collections.abc import Iterable, Mapping

from rowen.scheduler.history import History
from rowen.scheduler.model.rider import ride_class
from rowen.scheduler.monitor.engine_parts import engine_parts
from rowen.scheduler.monitor.lease import renewed, shortfall
from rowen.scheduler.occupancy import devices_of, hangs, pod_of
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.search.choice import claim_of
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, NodeView, Placement, PodView, Snapshot

Held = dict[JobKey, tuple[Placement, Claim]]
"""The assignments that stay, renewed, and what they hold."""


def build_fleet(
    snapshot: Snapshot, history: History, gone: Iterable[JobKey], now: float, policy: Policy
) -> tuple[Fleet, Held]:
    """The fleet with every claim, and the assignments that stay. `gone` are the jobs that lose theirs."""
    fleet = Fleet(snapshot.nodes, now, policy, engine_parts(history, snapshot.jobs))
    without = set(gone)
    held: Held = {}
    entered: set[str] = set()
    assigned = (job for job in snapshot.jobs.values() if job.placement is not None and not job.finished)
    for job in sorted(assigned, key=lambda job: job.order):
        if job.placement is None or job.uid in without:
            continue
        node, pod = snapshot.nodes.get(job.placement.node), pod_of(job, snapshot)
        placement = renewed(job.placement, node, pod, now, policy)
        rides = placement.rides
        rate = _rate(history.rates.get(job.workload, {}), node, placement.devices)
        promise = history.promise(ride_class(job.workload) if rides else job.workload, job.sla)
        name = (pod.namespace, pod.name) if pod is not None else None
        appetite = history.appetite(job)
        claim = claim_of(job, placement.node, placement.devices, promise, appetite, rate, name, rides=rides)
        leaves = job.deleting and not (pod is not None and hangs(pod, now))
        claim = claim._replace(short=shortfall(job, history, now, policy) is not None, leaves=leaves)
        fleet.add(claim)
        entered.add(placement.id)
        if not job.deleting:
            held[job.uid] = placement, claim
    for pod in snapshot.pods:
        if pod.assignment not in entered:
            _add_pod(fleet, snapshot, pod, now)
    return fleet, held


def _rate(rates: Mapping[str, float], node: NodeView | None, devices: Iterable[str]) -> float:
    """The rate of a job on devices that it holds."""
    views = filter(None, map(node.device, devices)) if node is not None and rates else ()
    return min((rates.get(view.type, 1.0) for view in views), default=1.0)


def _add_pod(fleet: Fleet, snapshot: Snapshot, pod: PodView, now: float) -> None:
    """A pod that holds slots or a seat without an assignment: one on its way out, or a stranger's."""
    node = snapshot.nodes.get(pod.node)
    if node is not None:
        name = f"{pod.namespace}/{pod.name}"
        devices, seen = _held(node, pod), (pod.namespace, pod.name)
        claim = Claim(pod_key(pod), f"pod {name}", pod.node, devices, pod.slots, pod.memory, pod=seen, rides=pod.rides)
        fleet.add(claim._replace(leaves=pod.gone_by is not None and not hangs(pod, now)))


def _held(node: NodeView, pod: PodView) -> tuple[str, ...]:
    """Its devices; of one that rides those alone where it may: no agent joins it with another namespace's engine."""
    held = devices_of(node, pod)
    if not pod.rides:
        return held
    views = filter(None, map(node.device, held))
    return tuple(view.id for view in views if view.service.startswith(f"{pod.namespace}/"))


def pod_key(pod: PodView) -> str:
    """The key of the claim of a pod without an assignment."""
    return f"pod:{pod.namespace}/{pod.name}"
