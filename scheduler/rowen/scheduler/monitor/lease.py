"""When an assignment is kept, renewed or lost."""

from dataclasses import dataclass, replace
from enum import StrEnum

from rowen.crds.names import PROGRESS_SECONDS
from rowen.scheduler.history import History, Track
from rowen.scheduler.monitor.hearing import Listening
from rowen.scheduler.occupancy import attached, devices_of, tenancies
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView, Placement, PodView

_STALE_SECONDS = 3.0 * PROGRESS_SECONDS
"""A measurement that is older says nothing of now, though the node is there."""
_SEAT_ABSENCE_SECONDS = 150.0
"""How long an engine may be away before its riders are moved: their workers ask for it for 120 s, then say so."""


class Reason(StrEnum):
    """Why a job has no assignment (any more)."""

    NODE_LOST = "NodeLost"
    HARVEST_DISABLED = "HarvestDisabled"
    HARVEST_REDUCED = "HarvestReduced"
    DEVICE_GONE = "DeviceGone"
    SLA_VIOLATED = "SLAViolated"
    PATTERN_CHANGED = "PatternChanged"
    MADE_WAY = "MadeWay"
    NOT_STARTED = "NotStarted"
    RIDE_ENDED = "RideEnded"
    RIDE_REFUSED = "RideRefused"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True)
class Loss:
    """An assignment that has to be withdrawn."""

    reason: Reason
    message: str
    everywhere: bool = False
    """What took it away would do so on any node."""

    @property
    def withdrawn(self) -> bool:
        """Whether the scheduler took it away, and not the user."""
        return self.reason is not Reason.SUSPENDED


def renewed(placement: Placement, node: NodeView | None, pod: PodView | None, now: float, policy: Policy) -> Placement:
    """The assignment, renewed when its node was heard last, on the devices that the kubelet gave its pod."""
    heard = _heard(placement, node, now)
    if node is None or node.heard is None:
        return replace(placement, renewed=heard)
    devices = devices_of(node, pod) if pod is not None else ()
    return replace(
        placement,
        renewed=heard,
        duration=policy.lease_seconds,
        devices=devices if devices and _reported(node, pod) else placement.devices,
    )


def silence(placement: Placement, node: NodeView | None, listening: Listening, now: float) -> float:
    """Listened seconds since the assignment's node was heard."""
    return listening.silence(_heard(placement, node, now), now)


def _heard(placement: Placement, node: NodeView | None, now: float) -> float:
    """When the node was heard last; of one that is gone, what is remembered of it."""
    heard = node.heard if node is not None else None
    return min(now, placement.renewed if heard is None else heard)


def _reported(node: NodeView, pod: PodView | None) -> bool:
    return pod is not None and bool(tenancies(node, pod))


def loss(
    job: JobView,
    placement: Placement,
    node: NodeView | None,
    pod: PodView | None,
    history: History,
    now: float,
    policy: Policy,
    *,
    listening: Listening,
    overdue: bool,
) -> Loss | None:
    """Why the job's assignment cannot stay; None when it can. `overdue`: its node's lease has run out."""
    if job.suspended:
        return Loss(Reason.SUSPENDED, "spec.suspend is set")
    current = renewed(placement, node, pod, now, policy)
    if overdue:
        ago = now - current.renewed
        return Loss(Reason.NODE_LOST, f"{placement.node}: lease ran out: last heartbeat {ago:.0f} s ago")
    # One whose report is missing has been heard, and says nothing of its devices for the moment.
    if node is None or node.told is None or node.age(now) > policy.lease_seconds:
        return None
    if not node.ready and not _reported(node, pod):
        return Loss(Reason.NODE_LOST, f"{placement.node}: node is not Ready and the job does not run there")
    absence = max(policy.absence_seconds, _SEAT_ABSENCE_SECONDS) if placement.rides else policy.absence_seconds
    for id_ in current.devices:
        found = _device_loss(node, id_, history, listening, now, absence)
        if found is not None:
            return found
    return None


def _device_loss(
    node: NodeView, id_: str, history: History, listening: Listening, now: float, absence: float
) -> Loss | None:
    """`absence`: seconds that its engine may be away."""
    device = node.device(id_)
    if device is None:
        return Loss(Reason.DEVICE_GONE, f"{node.name}/{id_}: the node no longer reports this device")
    if device.refusal:
        return Loss(Reason.HARVEST_DISABLED, f"{node.name}/{id_}: {device.refusal}")
    absent = 0.0 if device.attached else listening.silence(history.absences.get(device.key, now), now)
    if absent > absence:
        return Loss(Reason.HARVEST_DISABLED, f"{node.name}/{id_}: no online engine attached for {absent:.0f} s")
    return None


def unseated(job: JobView, placement: Placement, node: NodeView | None) -> Loss | None:
    """Why a job cannot stay in the engine that computes it; None when it can, or runs by itself.

    An engine that is away, or has just come back, may take it in again: its worker asks for that.
    """
    if not placement.rides or node is None:
        return None
    place = f"{placement.node}/{'+'.join(placement.devices)}"
    if job.status.ride_refused:
        return Loss(Reason.RIDE_REFUSED, f"{place}: it rides no more: {job.status.ride_refused}")
    for view in filter(None, map(node.device, placement.devices)):
        if not view.attached:
            continue
        if view.engine is None:
            return Loss(Reason.RIDE_ENDED, f"{place}: its service has another mode, model or arguments now")
        if view.engine.ended:
            return Loss(Reason.RIDE_ENDED, f"{place}: nothing rides in its engine any more: {view.engine.ended}")
        if view.engine.served.namespace != job.namespace:
            return Loss(Reason.RIDE_ENDED, f"{place}: its engine is one of another namespace now")
        if job.rider is None or view.engine.served.model != job.rider.model:
            return Loss(Reason.RIDE_ENDED, f"{place}: its engine serves another model now")
    return None


def not_started(job: JobView, node: NodeView | None, pod: PodView | None) -> Loss | None:
    """What the operator says of the present assignment: no pod could be started on it.

    It is out of date where the assignment's pod runs after all, by its phase or by its node's report. That the node
    reports the pod is not enough: the kubelet gives a pod its devices before it pulls the image.
    """
    placement, failure = job.placement, job.status.start_failure
    if pod is not None and (pod.running or (node is not None and attached(node, pod))):
        return None
    if placement is None or failure is None or failure.assignment != placement.id:
        return None
    message = f"{placement.node}: {failure.reason}: {failure.message}"
    return Loss(Reason.NOT_STARTED, message, everywhere=failure.cause == "Cluster")


def violation(job: JobView, history: History, now: float, policy: Policy) -> Loss | None:
    """The eviction that the SLA monitor asks for, after the dwell."""
    track = history.tracks.get(job.uid)
    if track is None or now - max(track.since, track.beside) < policy.dwell_seconds:
        return None
    return shortfall(job, history, now, policy)


def shortfall(job: JobView, history: History, now: float, policy: Policy) -> Loss | None:
    """Why the job falls short of its SLA, dwell or not: it has for long, or by the node's pattern has to."""
    track = history.tracks.get(job.uid)
    placement = job.placement
    if placement is None or job.sla is None or track is None:
        return None
    if track.assignment != placement.id or now - track.time > _STALE_SECONDS:
        return None
    place = f"{placement.node}/{'+'.join(placement.devices)}"
    return _shortfall(job.sla, track, placement, place, policy) or _drift(job.sla, track, placement, place, policy)


def _shortfall(sla: float, track: Track, placement: Placement, place: str, policy: Policy) -> Loss | None:
    """Too much of the SLA's throughput is missing, and still is; why: it could run less, or was slower meanwhile."""
    if track.shortfall < policy.shortfall_seconds or track.fraction is None or track.fraction >= sla:
        return None
    told = (
        f"{place}: {track.shortfall:.0f} s of the throughput of its SLA {sla:.2f} are missing, measured "
        f"{track.fraction:.2f} over the last {policy.monitor_window_seconds:.0f} s (predicted {placement.predicted:.2f}"
    )
    if track.granted_part is not None:
        told += f"; it could run {track.granted_part:.2f} of the time"
        told += f", at {track.speed:.2f} of its speed alone" if track.speed is not None else ""
    return Loss(Reason.SLA_VIOLATED, told + ")")


def _drift(sla: float, track: Track, placement: Placement, place: str, policy: Policy) -> Loss | None:
    """The node's pattern is no longer what was promised, and below the SLA, as what was measured already is."""
    if track.drift < policy.drift_seconds or track.expected is None or track.expected >= sla:
        return None
    if track.fraction is None or track.fraction >= sla:
        return None
    return Loss(
        Reason.PATTERN_CHANGED,
        f"{place}: reports now let expect {track.expected:.2f} < SLA {sla:.2f}, measured {track.fraction:.2f} "
        f"(predicted {placement.predicted:.2f})",
    )
