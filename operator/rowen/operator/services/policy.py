"""What to do about one OnlineService: `decide`, pure.

1. A service that is being deleted is left alone; owner references take its children along.
2. With `engine`, its Deployment and its Service are made as wanted, unless their name is somebody else's.
3. With `workloadRef`, nothing is changed; the status tells what harvesting lacks.
4. The SLO guard takes a step where the service misses its objective because of harvesting, or back.
5. The status follows from the workload, the pods and the fresh reports of the nodes.
"""

from typing import Any, Literal

from rowen.crds.common import find_condition, set_condition
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Decision, Manifest, Note
from rowen.operator.pods.volumes import model_location
from rowen.operator.say import Say
from rowen.operator.services.conditions import (
    degraded,
    guard_told,
    harvest_enabled,
    name_taken,
    observed,
    ready,
    slo_met,
)
from rowen.operator.services.drift import covers
from rowen.operator.services.guard import Guard, read_guard, written
from rowen.operator.services.guard import decide as guarded
from rowen.operator.services.manifests import cluster_service, deployment, endpoint
from rowen.operator.services.objective import objectives, objectives_by_type
from rowen.operator.services.snapshot import ServiceSnapshot

REFUSED_SECONDS = 30.0
_WORTH_A_NOTE = {"Ready": "True", "SLOMet": "False", "Degraded": "True"}


def decide(snapshot: ServiceSnapshot, now: float) -> Decision:
    """The decision for a service at `now` (Unix seconds)."""
    if snapshot.deleting:
        return Decision(reason="being deleted; owner references take the children along")
    ready_ = ready(snapshot)
    ttft = observed(snapshot.devices, snapshot.spec.slo.ttft, "ttft")
    tpot = observed(snapshot.devices, snapshot.spec.slo.tpot, "tpot")
    judged = objectives(snapshot.spec.slo, snapshot.devices)
    before = read_guard(snapshot.status.harvest_guard, snapshot.spec.harvest.mode, now)
    by_type = objectives_by_type(snapshot.spec.slo, snapshot.devices)
    guard = guarded(before, by_type, now, shared=_shared(snapshot)) if snapshot.spec.harvest.enabled else Guard()
    harvest = harvest_enabled(snapshot, guard)
    says = {
        "Ready": ready_,
        "SLOMet": slo_met(snapshot, judged, by_type),
        "HarvestEnabled": harvest,
        "Degraded": degraded(snapshot, ready_, harvest),
    }
    status = _status(snapshot, says, now)
    figures = {"ttft": ttft, "tpot": tpot, "harvestGuard": written(guard, snapshot.spec.harvest.mode)}
    status |= {name: value.to_wire() for name, value in figures.items() if value}
    return Decision(
        reason=f"{ready_.reason}: {ready_.message}",
        children=() if snapshot.refusal else _children(snapshot),
        status=status,
        # `Degraded` may say the same.
        notes=tuple(dict.fromkeys(_notes(snapshot, says) + _guard_notes(snapshot, before, guard))),
        requeue_seconds=REFUSED_SECONDS if snapshot.refusal else None,
    )


def _shared(snapshot: ServiceSnapshot) -> bool:
    """Whether a device has more than one offline tenant beside its engine: fewer who ride have the same together."""
    beside = (sum(tenant.mode != "CoServe" for tenant in device.tenants) for device in snapshot.devices)
    return any(count > 1 for count in beside)


def _children(snapshot: ServiceSnapshot) -> tuple[Manifest, ...]:
    """The children that are not as wanted."""
    engine = snapshot.spec.engine
    if engine is None or name_taken(snapshot):
        return ()
    children: list[Manifest] = []
    wanted = deployment(snapshot, engine)
    if snapshot.workload is None or not covers(snapshot.workload.manifest, wanted):
        children.append(wanted)
    address = cluster_service(snapshot)
    if snapshot.cluster_service is None or not covers(snapshot.cluster_service, address):
        children.append(address)
    return tuple(children)


def _status(snapshot: ServiceSnapshot, says: dict[str, Say], now: float) -> dict[str, Any]:
    workload, engine = snapshot.workload, snapshot.spec.engine
    model = model_location(engine.model).name_or_path if engine else None
    status = {
        "observedGeneration": snapshot.generation,
        "conditions": [
            set_condition(
                snapshot.status.conditions,
                type_,
                say.status,
                say.reason,
                say.message[:32768],
                generation=snapshot.generation,
                now=rfc3339(now, "seconds"),
            ).to_wire()
            for type_, say in says.items()
        ],
        "replicas": workload.replicas if workload else 0,
        "readyReplicas": workload.ready if workload else 0,
        "selector": workload.selector if workload else None,
        "endpoint": endpoint(snapshot.namespace, snapshot.name) if engine else None,
        "model": model,
        **_harvested(snapshot),
    }
    return {name: value for name, value in status.items() if value is not None}


def _harvested(snapshot: ServiceSnapshot) -> dict[str, Any]:
    fractions = [device.harvested_fraction for device in snapshot.devices]
    if not fractions:
        return {}
    mean = round(sum(fractions) / len(fractions), 3)
    return {"harvestedFraction": mean, "harvested": OnlineServiceStatus(harvested_fraction=mean).harvested}


def _notes(snapshot: ServiceSnapshot, says: dict[str, Say]) -> tuple[Note, ...]:
    """A note when a condition turns to what a person wants to hear of."""
    notes = []
    for type_, status in _WORTH_A_NOTE.items():
        before = find_condition(snapshot.status.conditions, type_)
        turned = says[type_].status == status and (before is None or before.status != status)
        if turned:
            kind: Literal["Normal", "Warning"] = "Normal" if type_ == "Ready" else "Warning"
            notes.append(Note(kind, "Ready" if type_ == "Ready" else says[type_].reason, says[type_].message))
    return tuple(notes)


def _guard_notes(snapshot: ServiceSnapshot, before: Guard, guard: Guard) -> tuple[Note, ...]:
    """A note for each step of the guard; that it was switched off is its user's own doing."""
    if guard.level == before.level or not snapshot.spec.harvest.enabled:
        return ()
    down = guard.level == "Stopped" or before.level == "Full"
    reason = "HarvestStopped" if guard.level == "Stopped" else "HarvestReduced" if down else "HarvestRestored"
    return (Note("Warning" if down else "Normal", reason, guard_told(guard)),)
