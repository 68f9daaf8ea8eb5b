"""Clusters for the scheduler's decisions: nodes of eight devices as their agents report them, and jobs in a queue."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from rowen.crds.harvest.busy import BusyCells, busy_cells, grid
from rowen.crds.harvest.node_harvest import DeviceHarvest, OnlineTenant
from rowen.crds.ride.messages import MOST_SEATS
from rowen.crds.text.parts import packed
from rowen.crds.text.texts import ObjectRef
from rowen.scheduler.device import DeviceView, EngineView
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.rider import Rider, Served
from rowen.scheduler.monitor.backoff import Backoff, BackoffKey
from rowen.scheduler.placement.constraints import Constraints, Requirement, Taint, Term, Toleration
from rowen.scheduler.snapshot import JobView, NodeView, Placement, Snapshot
from rowen.scheduler.world.facts import DeviceFacts, HarvestFacts, NodeFacts, PodFacts, ServiceFacts

Span = tuple[float, float]
GIB = 2**30
NOW = 1_000_000.0
WINDOW_SECONDS = 60.0
_GRID = grid(NOW, WINDOW_SECONDS)
_PER_NODE = 8
_SPANS = 60
_SLAS = (None, None, None, 0.1, 0.2, 0.3, 0.5)
_MEMORIES = (2, 4, 8, 16, 24)
_WANTS = (8, 24)
_ACCELERATORS = ("h100", "h200", "a100")
TAINTS = (Taint("team", "search", "NoSchedule"), Taint("maintenance", "", "NoSchedule"))
_TOLERATIONS = (Toleration("team", "Equal", "search", "NoSchedule"), Toleration("maintenance", "Exists"))
_CONSTRAINTS = (
    Constraints(),
    Constraints(selector=(("zone", "z1"),)),
    Constraints(tolerations=_TOLERATIONS[:1]),
    Constraints(selector=(("accelerator", "h100"),), tolerations=_TOLERATIONS),
    Constraints(terms=(Term((Requirement("zone", "In", ("z0", "z2")),)), Term((Requirement("gpu", "Exists"),)))),
    Constraints(terms=(Term((Requirement("accelerator", "NotIn", ("a100",)), Requirement("zone", "Exists"))),)),
)


def busy(source: random.Random, load: float) -> list[Span]:
    """Requests within the window, busy for about `load` of it."""
    begin = NOW - WINDOW_SECONDS
    starts = sorted(begin + source.random() * WINDOW_SECONDS for _ in range(_SPANS))
    spans: list[Span] = []
    end = begin
    for start in starts:
        first = max(start, end)
        end = first + load * source.expovariate(1.0) * WINDOW_SECONDS / _SPANS
        spans.append((first, end))
    return spans


def _cells(source: random.Random, spans: Iterable[Span]) -> BusyCells:
    """Ranks of a model are busy at nearly the same moments."""
    return busy_cells([(start + source.uniform(0, 0.02), end) for start, end in spans], _GRID)


def lending(source: random.Random) -> tuple[int, ...]:
    """What the pool had left, in 32 equal parts of the time."""
    most = source.uniform(4, 40)
    return tuple(sorted(round(source.uniform(0.2, 1.0) * most * GIB) for _ in range(32)))


def make_node(source: random.Random, number: int, devices: int = _PER_NODE) -> NodeView:
    """Each service has 1, 2, 4 or 8 of the node's devices, which are busy together."""
    name = f"node-{number:05}"
    views: list[DeviceView] = []
    while len(views) < devices:
        width = source.choice((1, 2, 4, 8))
        spans = busy(source, source.uniform(0.05, 1.2))
        for _ in range(min(width, devices - len(views))):
            own = _cells(source, spans)
            views.append(
                DeviceView(
                    name, f"gpu{len(views)}", "cuda", 80 * GIB, 1.0 - own.fraction, own,
                    online_memory=source.choice((30, 40, 60)) * GIB, service=f"ns/s{number}",
                    available=lending(random.Random(f"{name} {len(views)}")),
                )
            )  # fmt: skip
    return NodeView(
        name, slots=2 * devices, reported=NOW, told=NOW, heard=NOW, window=WINDOW_SECONDS, devices=tuple(views)
    )


def make_nodes(source: random.Random, devices: int) -> dict[str, NodeView]:
    """Nodes with so many devices together; the last one may have fewer."""
    sizes = [min(_PER_NODE, devices - first) for first in range(0, devices, _PER_NODE)]
    views = [make_node(source, number, size) for number, size in enumerate(sizes)]
    return {view.name: view for view in views}


def make_job(source: random.Random, number: int, devices: int = 1) -> JobView:
    """A job of one of some hundred kinds."""
    return JobView(
        uid=f"uid-{number}", namespace="ns", name=f"job-{number:05}", workload=f"class-{source.randrange(20)}",
        memory=source.choice(_MEMORIES) * GIB, devices=devices, sla=source.choice(_SLAS), created=float(number),
    )  # fmt: skip


def make_jobs(source: random.Random, count: int, lockstep: float = 0.0) -> list[JobView]:
    """A queue; so large a part of them are in lockstep over two to eight devices."""
    widths = [source.choice((2, 4, 8)) if source.random() < lockstep else 1 for _ in range(count)]
    return [make_job(source, number, width) for number, width in enumerate(widths)]


def wanting(source: random.Random, job: JobView) -> JobView:
    """The job with memory of the pool."""
    want = source.choice(_WANTS) * GIB
    return replace(job, pool=want, need=linear_need(want, 0.1, 0.1))


def unlike(jobs: Iterable[JobView]) -> list[JobView]:
    """The jobs, each with a little more memory than the one before, so that no two ask for the same."""
    return [replace(job, memory=job.memory + number) for number, job in enumerate(jobs)]


def backed_off(source: random.Random, jobs: Iterable[JobView], nodes: Iterable[str]) -> dict[BackoffKey, Backoff]:
    """Each of the jobs has failed on one to three nodes, as one does that was evicted, within the last half hour."""
    names = sorted(nodes)
    return {
        (job.uid, name): Backoff(1, NOW + source.uniform(1.0, 1800.0), "SLAViolated")
        for job in jobs
        for name in source.sample(names, min(len(names), source.randint(1, 3)))
    }


def labelled(source: random.Random, nodes: Iterable[NodeView]) -> dict[str, NodeView]:
    """The nodes in four zones, with three types of devices; a tenth has a taint each for a team and for maintenance."""
    return {
        node.name: replace(
            node,
            labels={"zone": f"z{source.randrange(4)}", "accelerator": source.choice(_ACCELERATORS)},
            taints=tuple(taint for taint in TAINTS if source.random() < 0.1),
        )
        for node in nodes
    }


def choosy(source: random.Random, job: JobView) -> JobView:
    """The job with what templates ask of nodes: nothing, a label, terms, tolerations, or some of it together."""
    return replace(job, constraints=source.choice(_CONSTRAINTS))


def tenants(nodes: Iterable[NodeView]) -> list[JobView]:
    """A best-effort job on every device, placed an hour ago."""
    found = []
    for node in nodes:
        for device in node.devices:
            id_ = f"{node.name}-{device.id}"
            placement = Placement(f"id-{id_}", node.name, (device.id,), device.idle, NOW - 3600, NOW, 15.0)
            found.append(JobView(f"uid-{id_}", "ns", id_, "class-0", 2 * GIB, placement=placement))
    return found


def co_serving(nodes: Iterable[NodeView], models: int) -> dict[str, NodeView]:
    """The nodes, where jobs ride in the engine of every device; so many models are served, in turn."""
    numbers = count()

    def engine(device: DeviceView) -> DeviceView:
        served = Served("ns", f"models/m{next(numbers) % models}")
        return replace(device, engine=EngineView(served, MOST_SEATS))

    return {node.name: replace(node, devices=tuple(map(engine, node.devices))) for node in nodes}


def riding(jobs: Iterable[JobView], models: int) -> list[JobView]:
    """The jobs, each of one of so many models."""
    return [replace(job, rider=Rider(f"models/m{number % models}")) for number, job in enumerate(jobs)]


def riders(nodes: Iterable[NodeView]) -> list[JobView]:
    """A best-effort job in every engine, placed an hour ago."""
    placed = tenants(nodes)
    return [replace(job, placement=replace(job.placement, rides=True)) for job in placed if job.placement]


def world(nodes: dict[str, NodeView], *queues: Iterable[JobView]) -> Snapshot:
    """The cluster with these jobs."""
    return Snapshot(nodes, {job.uid: job for queue in queues for job in queue})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the cluster's objects, one by one."""

    nodes: list[NodeFacts]
    harvests: list[HarvestFacts]
    pods: list[PodFacts]
    services: list[ServiceFacts]


def facts(nodes: Mapping[str, NodeView]) -> Facts:
    """The objects of which `assemble` makes these nodes, with an engine's pod for each device."""
    views = [(node, device) for node in nodes.values() for device in node.devices]
    services = sorted({device.service for _, device in views})
    return Facts(
        [NodeFacts(node.name, node.ready, node.schedulable, node.slots, node.labels, node.taints)
         for node in nodes.values()],
        [HarvestFacts(node.name, node.reported, node.window, tuple(map(_device_facts, node.devices)))
         for node in nodes.values()],
        [PodFacts("ns", f"{node.name}-{device.id}", node.name, {}, {}, device.online_memory, device.online_memory,
                  0, ended=False, running=True) for node, device in views],
        [ServiceFacts("ns", service.partition("/")[2], harvest=True) for service in services],
    )  # fmt: skip


def _device_facts(device: DeviceView) -> DeviceFacts:
    pod = ObjectRef(namespace="ns", name=f"{device.node}-{device.id}")
    online = OnlineTenant(pod=pod, service=device.service.partition("/")[2], attached=True)
    report = DeviceHarvest(
        id=device.id, type=device.type, memory_bytes=device.memory, harvestable=True, gate_open=True,
        idle_fraction=device.idle, harvested_fraction=0.0, preemptions=0, online=online,
        available=packed(device.available, device.memory) if device.available else None,
    )  # fmt: skip
    return DeviceFacts(report, device.busy, (), IdleLevel(device.idle, 0.0))


def heard_again(nodes: dict[str, NodeView], names: Iterable[str]) -> dict[str, NodeView]:
    """The cluster after new reports of some nodes: these are read anew, and packed as `assemble` does it."""
    new = {name: replace(nodes[name], devices=tuple(map(replace, nodes[name].devices))) for name in names}
    return {**nodes, **{name: view.packed() for name, view in new.items()}}


def reported_again(
    source: random.Random, harvests: Iterable[HarvestFacts], reports: Mapping[str, float]
) -> list[HarvestFacts]:
    """What is known after new reports of some nodes, with their times: their devices are idle for longer or shorter."""
    return [
        replace(harvest, reported=reports[harvest.node], devices=tuple(_idle_anew(source, harvest.devices)))
        if harvest.node in reports else harvest
        for harvest in harvests
    ]  # fmt: skip


def _idle_anew(source: random.Random, devices: Iterable[DeviceFacts]) -> Iterator[DeviceFacts]:
    for device in devices:
        idle = min(1.0, device.report.idle_fraction * source.uniform(0.95, 1.05))
        yield replace(device, idle=IdleLevel(idle, 0.0))
