"""What a report says of one job."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowen.scheduler.device import DeviceView, TenantView
from rowen.scheduler.history import History
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.evidence import Features
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.rider import ride_class
from rowen.scheduler.monitor.learning import expected_fraction, memory_features, promised_fraction
from rowen.scheduler.occupancy import pod_of, tenancies
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView, NodeView, Placement, PodView, Snapshot


@dataclass(frozen=True, slots=True)
class Reading:
    """One job in one report."""

    job: JobView
    placement: Placement
    pod: PodView
    heard: float
    """When the report was new to the scheduler."""
    steady: float
    """Since when the node's heartbeats have followed one another."""
    stamp: float
    """The node's own time of it."""
    workload: str
    """The class of what is learned from it."""
    tokens: int
    granted: float
    tenants: int
    device_types: tuple[str, ...]
    """Of the devices of its assignment, each once, in order: a report may not have its tenant on all of them yet."""
    expected: IdleLevel
    """Fraction that the report lets expect."""
    promised: float | None
    """The fraction that the assignment was made for, beside the tenants of now; None: not known beside how many."""
    memory: Features | None
    """Of the memory that there was in its window; None where that does not matter or is not known."""


def readings_of(
    history: History, snapshot: Snapshot, now: float, policy: Policy
) -> tuple[dict[JobKey, Reading], set[JobKey]]:
    """The reports that are fresh, by job, and the jobs whose report was read before."""
    found: dict[JobKey, Reading] = {}
    known: set[JobKey] = set()
    for job in snapshot.jobs.values():
        pod = pod_of(job, snapshot)
        node = snapshot.nodes.get(pod.node) if pod else None
        if job.placement is None or pod is None or node is None:
            continue
        held = tenancies(node, pod) if node.age(now) <= policy.lease_seconds else ()
        if not held or node.told is None or node.reported is None:
            continue
        track = history.tracks.get(job.uid)
        if track is not None and (track.assignment, track.pod, track.time) == (job.placement.id, pod.name, node.told):
            known.add(job.uid)
        else:
            appetite = None if job.placement.rides else history.appetite(job)
            found[job.uid] = _reading(job, job.placement, pod, node, node.told, node.reported, held, appetite)
    return found, known


def _reading(
    job: JobView,
    placement: Placement,
    pod: PodView,
    node: NodeView,
    heard: float,
    stamp: float,
    held: Sequence[tuple[DeviceView, TenantView]],
    appetite: Appetite | None,
) -> Reading:
    # Whose image is still pulled takes nothing; the job's own entry counts in any case.
    tenants = max(sum(tenant is own or tenant.attached for tenant in device.tenants) for device, own in held)
    devices = [device for device, _ in held]
    promised = promised_fraction(placement, devices, tenants, appetite)
    # Of an engine that computes a job the device's idle time says little: only what it makes is judged.
    expected = IdleLevel(promised or 0.0, 0.0) if placement.rides else expected_fraction(devices, tenants, appetite)
    return Reading(
        job=job,
        placement=placement,
        pod=pod,
        heard=heard,
        steady=node.steady,
        stamp=stamp,
        workload=ride_class(job.workload) if placement.rides else job.workload,
        tokens=max(tenant.tokens for _, tenant in held),
        granted=max(tenant.granted for _, tenant in held),
        tenants=tenants,
        device_types=_types(placement, node),
        expected=expected,
        promised=promised,
        memory=None if placement.rides else memory_features(job, devices),
    )


def _types(placement: Placement, node: NodeView) -> tuple[str, ...]:
    return tuple(sorted({device.type for device in map(node.device, placement.devices) if device is not None}))
