"""The conditions of an OnlineService, each a pure function of the snapshot."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rowen.crds.base import duration_seconds
from rowen.crds.common import Condition, find_condition
from rowen.crds.harvest.latency_counts import LEAST_REQUESTS
from rowen.crds.harvest.node_harvest import DeviceHarvest, Quantiles
from rowen.crds.pod.pod_overlay import told_of
from rowen.crds.service.online_service import HarvestLevel, LatencyTarget, ObservedLatency
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Refusal
from rowen.operator.pods.container_ends import Ends
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.say import Say
from rowen.operator.services.co_serving import riding_told
from rowen.operator.services.guard import Guard
from rowen.operator.services.manifests import pod_template
from rowen.operator.services.objective import Objective, Verdict, worst
from rowen.operator.services.snapshot import ServiceSnapshot
from rowen.operator.services.spatial import sharing_told

_BETWEEN_STARTS = ("CrashLoopBackOff", "RunContainerError")
_NOT_ATTACHED = (
    "Rowen's plugin has not attached in the engine, or has failed there; lines that begin with `rowen:` in the "
    "engine's log say why"
)
_STARTING = "none of its engines is ready yet, and Rowen's plugin attaches in each while it starts"
_LEVELS: dict[HarvestLevel, str] = {
    "Full": "any offline work",
    "Reduced": "one offline job at a time on each of the service's devices",
    "Stopped": "no offline work on the service's devices",
}


def ready(snapshot: ServiceSnapshot) -> Say:
    """Ready: all wanted pods answer."""
    workload = snapshot.workload
    if snapshot.refusal:
        return _refused(snapshot, snapshot.refusal)
    if workload is None:
        if snapshot.spec.workload_ref:
            reference = snapshot.spec.workload_ref
            return Say("False", "WorkloadMissing", f"{reference.kind} {reference.name} does not exist")
        return Say("False", "Progressing", "the Deployment is being made")
    if name_taken(snapshot):
        return Say("False", "NameTaken", f"an object {snapshot.name} exists that Rowen does not own")
    if workload.desired == 0:
        return Say("False", "ScaledToZero", "no replicas are wanted")
    count = f"{workload.ready} of {workload.desired} pods are ready"
    if workload.ready >= workload.desired:
        return Say("True", "AllReady", count)
    trouble = _troubled_pod(snapshot) or workload.replica_failure
    if trouble:
        return Say("False", trouble.reason, f"{count}; {trouble.message}")
    return Say("False", "Progressing", count)


def _refused(snapshot: ServiceSnapshot, refusal: Refusal) -> Say:
    """In the fields of the user's podTemplate, where that is what is wrong."""
    engine = snapshot.spec.engine
    if engine is None or engine.pod_template is None or not refusal.invalid:
        return Say("False", "ChildRefused", refusal.message)
    spec, user = pod_template(snapshot, engine)["spec"], engine.pod_template.to_wire().get("spec") or {}
    told = told_of(refusal.message, "spec.engine.podTemplate", spec, user, root="spec.template.")
    return Say("False", "InvalidTemplate", told)


def name_taken(snapshot: ServiceSnapshot) -> bool:
    """Whether a child's name is in use by an object that this service does not control."""
    if snapshot.spec.engine is None:
        return False
    foreign_workload = snapshot.workload is not None and snapshot.workload.owner_uid != snapshot.uid
    foreign_service = snapshot.cluster_service is not None and not any(
        reference.get("uid") == snapshot.uid
        for reference in snapshot.cluster_service["metadata"].get("ownerReferences") or ()
    )
    return foreign_workload or foreign_service


def _troubled_pod(snapshot: ServiceSnapshot) -> Problem | None:
    """The first pod that does not start or whose engine ended, in the words of kube-scheduler, kubelet or engine."""
    return next((trouble for pod in snapshot.pods if pod.lives and (trouble := _trouble(pod))), None)


def _trouble(pod: PodView) -> Problem | None:
    # The kubelet has one word while it waits and none while a container starts anew; that it ended stays true.
    if pod.ends and (pod.problem is None or _is_between_starts(pod.problem, pod.ends)):
        # Of several the one that ends most often, and so always the same one.
        most = max(pod.ends, key=lambda ends: ends.count)
        engine = most.container == pod.tenant
        reason = "OOMKilled" if most.reason == "OOMKilled" else "EngineEnded" if engine else "ContainerEnded"
        more = f"`kubectl logs {pod.name} -c {most.container} --previous` shows more"
        words = most.in_words("engine" if engine else f"container {most.container}")
        return Problem(reason, f"pod {pod.name}: {words}; {more}")
    if pod.problem:
        return replace(pod.problem, message=f"pod {pod.name}: {pod.problem.message}")
    return None


def _is_between_starts(problem: Problem, ends: Iterable[Ends]) -> bool:
    return problem.reason in _BETWEEN_STARTS and problem.container in {each.container for each in ends}


def observed(devices: Iterable[DeviceHarvest], target: LatencyTarget, latency: str) -> ObservedLatency | None:
    """The worst node's percentile, of its devices of one type; None without traffic. `latency` is ttft or tpot."""
    samples: list[Quantiles] = [
        quantiles for device in devices if device.online and (quantiles := getattr(device.online, latency)) is not None
    ]
    if not samples:
        return None
    worst = max(getattr(quantiles, f"p{target.percentile}") for quantiles in samples)
    bound = duration_seconds(target.target)
    return ObservedLatency(percentile=target.percentile, value_seconds=worst, target_seconds=bound)


_RECENT = "in the last 10 min"
_CAUSES = {
    Verdict.SERVICE: "harvesting is not the cause, as requests are late without offline work too",
    Verdict.UNTESTED: "whether harvesting is the cause is not known yet",
    Verdict.HARVEST: "harvesting is the cause",
}


def slo_met(snapshot: ServiceSnapshot, objectives: Sequence[Objective], by_type: Sequence[Objective]) -> Say:
    """SLOMet: the requests of the last ten minutes keep the objectives.

    It turns False when one is missed with confidence, and True when all that were asked for are kept with some; in
    between it stays as it was. So it does with fewer requests, down to half of what it takes to begin with. That one is
    missed takes no more than `LEAST_REQUESTS`. The cause is told from the same, `by_type` of devices.
    """
    if not snapshot.devices:
        return Say("Unknown", "NoReport", "no fresh report of a node names a device of this service")
    asked = [objective for objective in objectives if objective.all.of]
    if not asked:
        return Say(
            "Unknown", "NoTraffic", "no streamed response ended in the last 10 min, so there is no latency to judge"
        )
    before = find_condition(snapshot.status.conditions, "SLOMet")
    if before is not None and before.status == "Unknown":
        before = None
    late = [objective for objective in asked if _missed(objective, before)]
    if late:
        return Say("False", "And".join(_word(each) for each in late) + "Exceeded", _late_told(late, by_type))
    few = [objective for objective in asked if not _enough(objective, before)]
    if few:
        return Say("Unknown", "TooFewRequests", "; ".join(_few_told(each) for each in few))
    unclear = [objective for objective in asked if _missed(objective, before) is None]
    if unclear:
        shares = "; ".join(each.all_told() for each in unclear)
        return Say("Unknown", "Unclear", f"{_RECENT} {shares}; more requests will tell whether that is too many")
    return Say("True", "Met", f"{_RECENT} {'; '.join(_kept_told(each) for each in asked)}")


def _enough(objective: Objective, before: Condition | None) -> bool:
    """Whether there are enough requests to say that it is kept; fewer do where it was known before."""
    return objective.all.of >= (objective.least // 2 if before else objective.least)


def _missed(objective: Objective, before: Condition | None) -> bool | None:
    """Whether it is missed, as before where that is not clear; None: not known."""
    if objective.all.of >= LEAST_REQUESTS and objective.missed(objective.all):
        return True
    if not _enough(objective, before):
        return None
    if objective.kept(objective.all):
        return False
    return None if before is None else before.status == "False" and _word(objective) in before.reason


def _few_told(objective: Objective) -> str:
    return (
        f"{objective.latency.upper()}: {objective.all.of} requests in the last 10 min are too few: "
        f"{objective.least} show whether p{objective.percentile} is kept"
    )


def _word(objective: Objective) -> str:
    return objective.latency.capitalize()


def _late_told(late: Sequence[Objective], by_type: Sequence[Objective]) -> str:
    told = f"{_RECENT} {'; '.join(_missed_told(each) for each in late)}"
    latencies = {each.latency for each in late}
    verdict, judged = worst(each for each in by_type if each.latency in latencies)
    if verdict not in _CAUSES:
        return told
    parts = (f"{each.latency.upper()}: {each.parts_told()}" if len(late) > 1 else each.parts_told() for each in judged)
    return f"{told}; {_CAUSES[verdict]}: {'; '.join(parts)}"


def _missed_told(objective: Objective) -> str:
    """The figures of one that is said to be missed; where they alone would not say so, that it was before."""
    held = "" if objective.all.rate > objective.allowed else "; not clearly few enough to call it kept again"
    return objective.all_told() + held


def _kept_told(objective: Objective) -> str:
    """The figures of one that is said to be kept, likewise."""
    held = "; not clearly more than that, so it still counts as kept" if objective.all.rate > objective.allowed else ""
    return objective.all_told() + held


def harvest_enabled(snapshot: ServiceSnapshot, guard: Guard) -> Say:
    """HarvestEnabled: offline work may be placed on at least one of the service's devices."""
    if not snapshot.spec.harvest.enabled:
        return Say("False", "Disabled", "spec.harvest.enabled is false")
    if guard.level == "Stopped":
        return Say("False", "HarvestStopped", guard_told(guard))
    if snapshot.workload is None:
        return Say("False", "NoWorkload", "the workload does not exist yet")
    missing = missing_parts(snapshot)
    if missing:
        return missing
    if not snapshot.devices:
        return Say("False", "NoReport", "no fresh report of a node names a device of this service")
    offered = sum(device.harvestable for device in snapshot.devices)
    count = f"{offered} of {len(snapshot.devices)} devices are harvested"
    count += riding_told(snapshot.spec, snapshot.devices) + sharing_told(snapshot.spec)
    if offered and guard.level == "Reduced":
        return Say("True", "HarvestReduced", f"{count}; {guard_told(guard)}")
    if offered:
        return Say("True", "Harvesting", count)
    if not any(device.online and device.online.attached for device in snapshot.devices):
        return Say("False", "NotAttached", f"{count}: {_NOT_ATTACHED if snapshot.workload.ready else _STARTING}")
    return Say("False", "NotHarvestable", f"{count}: {_not_harvestable(snapshot.devices)}")


def _not_harvestable(devices: Sequence[DeviceHarvest]) -> str:
    """Why none is, as far as the reports tell: a device's fault is in its agent's log alone."""
    unattached = sum(device.online is None or not device.online.attached for device in devices)
    faulty = f"{len(devices) - unattached} with an attached engine are out of order: their agent's log says why"
    return f"{faulty}; on {unattached} Rowen's plugin has not attached in the engine" if unattached else faulty


def guard_told(guard: Guard) -> str:
    """What the SLO guard allows, why, and until when, for people."""
    told = f"the SLO guard allows {_LEVELS[guard.level]}"
    if guard.message:
        told += f"; {guard.message}"
    if guard.next_up is None:
        return told
    at = rfc3339(guard.next_up, "seconds")
    if guard.level == "Stopped":
        return f"{told}; one job at a time is tried again at {at} at the latest"
    return f"{told}; more are tried again at {at}, unless requests are late before"


def missing_parts(snapshot: ServiceSnapshot) -> Say | None:
    """What an adopted workload lacks; Rowen tells and does not change it."""
    workload, reference = snapshot.workload, snapshot.spec.workload_ref
    if workload is None or reference is None:
        return None
    name = f"{reference.kind} {reference.name}"
    if not workload.requests_device:
        return Say("False", "NoDevice", f"no container of {name} has the resource limit rowen.dev/online")
    if workload.service not in (None, snapshot.name):
        return Say("False", "OtherService", f"the pods of {name} carry the label rowen.dev/service: {workload.service}")
    return None


def degraded(snapshot: ServiceSnapshot, ready_: Say, harvest: Say) -> Say:
    """Degraded: something that was asked for does not work."""
    if ready_.status == "False" and ready_.reason not in ("Progressing", "ScaledToZero"):
        return Say("True", ready_.reason, ready_.message)
    if harvest.status == "False" and harvest.reason != "Disabled" and ready_.status == "True":
        return Say("True", harvest.reason, harvest.message)
    unattached = [device.id for device in snapshot.devices if device.online and not device.online.attached]
    if unattached and ready_.status == "True" and snapshot.spec.harvest.enabled:
        return Say("True", "NotAttached", f"Rowen's plugin has not attached on devices {', '.join(unattached)}")
    return Say("False", "AsExpected")
