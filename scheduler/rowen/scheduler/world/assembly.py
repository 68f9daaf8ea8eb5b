"""Joins what was read from single objects into one snapshot."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rowen.crds import names
from rowen.crds.harvest.co_serving import CoServing
from rowen.crds.harvest.node_harvest import DeviceHarvest, OfflineTenant, OnlineTenant
from rowen.scheduler.device import DeviceView, EngineView, TenantView
from rowen.scheduler.monitor.hearing import Hearing
from rowen.scheduler.placement.volumes import NO_VOLUMES, Volumes
from rowen.scheduler.snapshot import JobView, NodeView, PodView, Snapshot
from rowen.scheduler.world.facts import DeviceFacts, HarvestFacts, NodeFacts, PodFacts, ServiceFacts

ObjectKey = tuple[str, str]
"""Namespace and name."""
_TELLING_SECONDS = 30.0
"""An engine that is ready, and that its agent has found, has told the agent by then whether it takes jobs in."""
_MOST_TOKENS, _MOST_SECONDS = 2**53, 1e10
"""Of a tenant: a node may report what it likes, and what is worked out of it is to stay a number."""


def assemble(
    jobs: Iterable[JobView],
    harvests: Iterable[HarvestFacts],
    nodes: Iterable[NodeFacts],
    pods: Iterable[PodFacts],
    services: Iterable[ServiceFacts],
    hearing: Hearing,
    before: Mapping[str, NodeView],
    volumes: Volumes = NO_VOLUMES,
) -> Snapshot:
    """One view of the cluster. A report of a node that is gone is passed over. The jobs keep to the volumes.

    A node of which nothing has changed keeps its view from `before`. What was worked out of a report lives as long as
    the report: a heartbeat changes nothing of it.
    """
    reports = {harvest.node: harvest for harvest in harvests}
    by_pod = {(pod.namespace, pod.name): pod for pod in pods}
    by_service = {(service.namespace, service.name): service for service in services}
    views = {}
    for node in nodes:
        view = _node(node, reports.get(node.name), hearing, by_pod, by_service)
        views[node.name] = _kept(view, before.get(node.name))
    holders = tuple(_holder(pod) for _, pod in sorted(by_pod.items()) if pod.holds and not pod.ended)
    renewed = {job.uid: _renewed(job, views, hearing) for job in jobs}
    return Snapshot(views, renewed, holders, hearing.listening, volumes)


def _kept(view: NodeView, old: NodeView | None) -> NodeView:
    """The old view where nothing has changed. What a new one needs is packed here, before a pass decides."""
    if old == view:
        return old
    return (view if old is None else view.keeping(old)).packed()


def _renewed(job: JobView, nodes: Mapping[str, NodeView], hearing: Hearing) -> JobView:
    """The job, with what is remembered of its assignment's node where that has no view of its own any more.

    What a status says of renewals is as old as the assignment: where nothing is remembered, the node has not been heard
    since listening began.
    """
    placement = job.placement
    if placement is None or ((node := nodes.get(placement.node)) is not None and node.heard is not None):
        return job
    word = hearing.words.get(placement.node)
    renewed = word.heard if word is not None else min(placement.renewed, hearing.listening.since)
    return replace(job, placement=replace(placement, renewed=renewed))


def _node(
    node: NodeFacts,
    harvest: HarvestFacts | None,
    hearing: Hearing,
    pods: Mapping[ObjectKey, PodFacts],
    services: Mapping[ObjectKey, ServiceFacts],
) -> NodeView:
    view = NodeView(node.name, node.ready, node.schedulable, node.slots, labels=node.labels, taints=node.taints)
    word, telling = hearing.words.get(node.name), hearing.tellings.get(node.name)
    if word is not None:
        view = replace(view, heard=word.heard, steady=word.steady)
    if harvest is None:
        return view
    devices = tuple(_device(node.name, device, harvest.reported or 0.0, pods, services) for device in harvest.devices)
    told = telling.told if telling else None
    return replace(view, reported=harvest.reported, told=told, window=harvest.window, devices=devices)


def _device(
    node: str,
    device: DeviceFacts,
    reported: float,
    pods: Mapping[ObjectKey, PodFacts],
    services: Mapping[ObjectKey, ServiceFacts],
) -> DeviceView:
    report = device.report
    pod = _engine_pod(node, report.online, pods) if report.online else None
    service = services.get((report.online.pod.namespace, report.online.service or "")) if report.online else None
    return DeviceView(
        node=node,
        id=report.id,
        type=report.type,
        memory=report.memory_bytes,
        idle=device.idle.fraction,
        busy=device.busy,
        idles=device.idles,
        available=device.available,
        online_memory=_online_memory(pod) if pod else None,
        service=_service(report.online) if report.online else "",
        attached=report.harvestable,
        refusal=_refusal(report.online, service) if report.online else "",
        restraint=_restraint(report.online, service) if report.online else "",
        tenants=tuple(_tenant(tenant) for tenant in report.tenants),
        engine=_engine(report, service, pod),
        awaited=_awaited(report, reported, service, pod),
        shares=service is not None and service.shares,
        seen_idle=report.idle_fraction,
        deviation=device.idle.deviation,
    )


def _engine_pod(node: str, online: OnlineTenant, pods: Mapping[ObjectKey, PodFacts]) -> PodFacts | None:
    """The pod that a node reports as a device's engine. An agent speaks for its own node alone."""
    pod = pods.get((online.pod.namespace, online.pod.name))
    return pod if pod is not None and pod.node == node else None


def _engine(report: DeviceHarvest, service: ServiceFacts | None, pod: PodFacts | None) -> EngineView | None:
    """None too of a pod that serves what its service did before, or is going to.

    One whose pod is not there, as when it was deleted and the report is from before that, is away: it takes nobody in.
    """
    if service is None or service.served is None:
        return None
    if pod is not None and not _serves(pod, service):
        return None
    found = report.co_serving
    if pod is None or found is None:
        return EngineView(service.served)
    return EngineView(service.served, found.seats, found.ended or "", _ridden(found))


def _ridden(found: CoServing) -> bool:
    inside = found.riding_fraction, found.forward_tokens_per_second, found.row_tokens_per_second
    return any((*inside, found.solo_tokens_per_second, found.backward_tokens_per_second))


def _serves(pod: PodFacts, service: ServiceFacts) -> bool:
    """Whether the pod serves what its service says now."""
    return pod.annotations.get(names.SERVED_ANNOTATION) == service.served_digest


def _awaited(report: DeviceHarvest, reported: float, service: ServiceFacts | None, pod: PodFacts | None) -> str:
    """Why newcomers wait. `reported`: when the report was made, by the clock by which the pod became ready."""
    if service is None or service.served is None:
        return ""
    if pod is None:
        return "its engine is being replaced"
    # A pod that the operator did not make is not going to be one in which jobs ride.
    if not pod.managed:
        return ""
    if pod.gone_by is not None or not _serves(pod, service):
        return "its engine is being replaced"
    # An agent that was started anew finds the engine first, and hears of its seats a little later.
    attached = math.inf if report.covered_seconds is None else report.covered_seconds
    told = pod.ready is not None and min(reported - pod.ready, attached) >= _TELLING_SECONDS
    return "" if told or report.co_serving is not None else "its engine has not told yet whether jobs ride in it"


def _online_memory(engine: PodFacts) -> int | None:
    """Bytes that it may have on each of its devices: equal parts."""
    return None if engine.most_memory is None else -(-engine.most_memory // max(1, engine.online_devices))


def _service(online: OnlineTenant) -> str:
    return f"{online.pod.namespace}/{online.service}" if online.service else ""


def _refusal(online: OnlineTenant, service: ServiceFacts | None) -> str:
    """Why the owner does not offer the device. A pod belongs to the service that its label names, and to no other."""
    namespace = online.pod.namespace
    if not online.service:
        return f"pod {namespace}/{online.pod.name} carries no label {names.SERVICE_LABEL}"
    if service is None:
        return f"OnlineService {namespace}/{online.service} is gone"
    if not service.harvest:
        return f"OnlineService {namespace}/{online.service} does not let itself be harvested"
    return f"{_missed(online)}, nothing of it is harvested" if service.level == "Stopped" else ""


def _restraint(online: OnlineTenant, service: ServiceFacts | None) -> str:
    """Why the device takes one job at a time."""
    reduced = service is not None and service.level == "Reduced"
    return f"{_missed(online)}, one job at a time on each of its devices" if reduced else ""


def _missed(online: OnlineTenant) -> str:
    return f"SLO guard: OnlineService {online.pod.namespace}/{online.service} misses its SLO beside offline work"


def _tenant(tenant: OfflineTenant) -> TenantView:
    tokens = min(max(0, tenant.tokens), _MOST_TOKENS)
    granted = min(max(0.0, tenant.granted_seconds), _MOST_SECONDS)
    return TenantView(tenant.pod.namespace, tenant.pod.name, tokens, granted, tenant.attached)


def _holder(pod: PodFacts) -> PodView:
    devices = pod.annotations.get(names.DEVICES_ANNOTATION, "")
    return PodView(
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        slots=pod.harvest_slots,
        memory=(pod.memory or 0) // pod.harvest_slots if pod.harvest_slots else 0,
        job=pod.labels.get(names.JOB_UID_LABEL),
        assignment=pod.annotations.get(names.ASSIGNMENT_ANNOTATION),
        devices=tuple(part.strip() for part in devices.split(",") if part.strip()),
        running=pod.running,
        gone_by=pod.gone_by,
        rides=not pod.harvest_slots,
    )
