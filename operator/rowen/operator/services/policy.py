"""What to do about one OnlineService: `decide`, pure.

1. A service that is being deleted is left alone; owner references take its children along.
2. With `engine`, its Deployment and its Service are made as wanted, unless their name is somebody else's.
3. With `workloadRef`, nothing is changed; the status tells what harvesting lacks.
4. The status follows from the workload, the pods and the fresh reports of the nodes.
"""

from typing import Any, Literal

from rowen.crds.common import find_condition, set_condition
from rowen.crds.online_service import OnlineServiceStatus
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Decision, Manifest, Note
from rowen.operator.pods.volumes import model_location
from rowen.operator.say import Say
from rowen.operator.services.conditions import (
    degraded,
    harvest_enabled,
    name_taken,
    observed,
    ready,
    slo_met,
)
from rowen.operator.services.drift import covers
from rowen.operator.services.manifests import cluster_service, deployment, endpoint
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
    harvest = harvest_enabled(snapshot)
    says = {
        "Ready": ready_,
        "SLOMet": slo_met(snapshot, ttft, tpot),
        "HarvestEnabled": harvest,
        "Degraded": degraded(snapshot, ready_, harvest),
    }
    status = _status(snapshot, says, now)
    status |= {name: seen.to_wire() for name, seen in (("ttft", ttft), ("tpot", tpot)) if seen}
    return Decision(
        reason=f"{ready_.reason}: {ready_.message}",
        children=() if snapshot.refusal else _children(snapshot),
        status=status,
        notes=_notes(snapshot, says),
        requeue_seconds=REFUSED_SECONDS if snapshot.refusal else None,
    )


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
