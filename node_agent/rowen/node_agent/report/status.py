"""What the agent saw, as a NodeHarvest status. Pure: no clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from rowen.crds.harvest.busy import BusyGrid, busy_cells, encode, grid
from rowen.crds.harvest.co_serving import TenantMode
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.harvest.node_harvest import (
    DeviceHarvest,
    NodeHarvestStatus,
    OfflineTenant,
    OnlineTenant,
    PoolOwners,
    Quantiles,
)
from rowen.crds.harvest.spatial import Spatial
from rowen.crds.text.digits import significant
from rowen.crds.text.parts import packed
from rowen.crds.text.texts import ObjectRef
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request, TenantCounts
from rowen.node_agent.kubelet.pods import Placements, PodView, telling_devices
from rowen.node_agent.memory.trace import MemorySample, memory_trace
from rowen.node_agent.report.idles import LongIdles
from rowen.node_agent.report.latencies import Latencies, windows
from rowen.node_agent.report.shares import until
from rowen.node_agent.report.steps import Span, co_serving, step_figures
from rowen.node_agent.ride.view import EngineView


@dataclass(frozen=True)
class DeviceSnapshot:
    """All that is known of a device. Times in seconds, monotonic clock."""

    config: DeviceConfig
    hardware: str
    usable: bool
    """Whether the device itself is in order."""
    counts: DeviceCounts
    idle_fraction: float
    harvested_fraction: float
    covered: float
    """Seconds that the two speak of."""
    requests: tuple[Request, ...]
    closings: tuple[Closing, ...]
    placements: Placements
    pool: PoolOwners | None = None
    """Whose its memory is; None: it does not change its owner."""
    memory: tuple[MemorySample, ...] = ()
    """How it was shared over the window."""
    idles: LongIdles | None = None
    """How idle it was over longer windows."""
    latencies: Latencies | None = None
    """Its requests by latency, over longer windows."""
    engine: EngineView | None = None
    """Its engine, where that takes riders in."""
    riders: tuple[tuple[PodView, TenantCounts], ...] = ()
    """Pods that ride in it."""
    steps: Span | None = None
    """What its engine's steps were made of over the window."""
    spatial: Spatial | None = None
    """What offline work might use of it beside requests over the window."""


def quantiles(samples: Iterable[float]) -> Quantiles | None:
    """Nearest-rank quantiles, or None without samples."""
    ordered = sorted(samples)
    if not ordered:
        return None

    def at(fraction: float) -> float:
        return significant(ordered[max(0, ceil(fraction * len(ordered)) - 1)], 3)

    return Quantiles(p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99))


def _busy(snapshot: DeviceSnapshot, grid: BusyGrid, unix_offset: float) -> str:
    """When the gate was closed. One that is closed now is so until the grid's end, which lies a cell back at most.

    It is for jobs on several devices, which get all of a device or nothing: open at a share it is closed to them.
    """
    stretches = ((closing.closed + unix_offset, end + unix_offset) for closing, end in until(snapshot.closings))
    return encode(busy_cells(stretches, grid))


def _reference(pod: PodView) -> ObjectRef:
    return ObjectRef(namespace=pod.namespace, name=pod.name)


def _online(snapshot: DeviceSnapshot, served: Sequence[DeviceSnapshot]) -> OnlineTenant | None:
    """`served`: the devices whose requests it tells."""
    pod = snapshot.placements.online
    if pod is None:
        return None
    requests = [request for each in served for request in each.requests]
    return OnlineTenant(
        pod=_reference(pod),
        service=pod.service,
        attached=snapshot.counts.online_processes > 0,
        ttft=quantiles(request.ttft for request in requests),
        tpot=quantiles(request.tpot for request in requests if request.tpot is not None),
        requests=windows([each.latencies for each in served if each.latencies], snapshot.counts.now),
    )


def _offline(pod: PodView, counts: TenantCounts, mode: TenantMode = "Preempt") -> OfflineTenant:
    """A pod on one device. One on several is listed with each, every time with the progress of the whole pod.

    So a reader takes one entry's tokens, units and granted seconds, never their sum; preemptions and backstops are the
    device's own.
    """
    return OfflineTenant(
        pod=_reference(pod),
        job=pod.job,
        mode=mode,
        attached=counts.attached > 0,
        completed=counts.completed,
        total=counts.total,
        tokens=counts.tokens,
        granted_seconds=round(counts.granted_seconds if counts.reports else counts.open_seconds, 3),
        preemptions=counts.preemptions,
        backstops=counts.backstops,
    )


def _available(snapshot: DeviceSnapshot, window: float) -> str | None:
    parts = memory_trace(snapshot.memory, snapshot.counts.now, window)
    return packed(parts, snapshot.config.memory_bytes) if parts else None


def device_harvest(
    snapshot: DeviceSnapshot, served: Sequence[DeviceSnapshot], *, window: float, over: BusyGrid, unix_offset: float
) -> DeviceHarvest:
    """One device. `window` in seconds; `unix_offset` is what makes a monotonic time a Unix time.

    `served`: the devices whose requests it tells, of the same service and type.
    """
    counts = snapshot.counts
    return DeviceHarvest(
        id=snapshot.config.id,
        type=snapshot.hardware,
        memory_bytes=snapshot.config.memory_bytes,
        harvestable=snapshot.usable and counts.online_processes > 0,
        gate_open=counts.gate_open,
        idle_fraction=significant(snapshot.idle_fraction, 4),
        harvested_fraction=significant(snapshot.harvested_fraction, 4),
        covered_seconds=significant(snapshot.covered, 4) if snapshot.covered < window else None,
        idles=snapshot.idles.windows(window) if snapshot.idles else [],
        busy=_busy(snapshot, over, unix_offset),
        preemptions=counts.preemptions,
        available=_available(snapshot, window),
        pool=snapshot.pool,
        online=_online(snapshot, served),
        steps=step_figures(snapshot.steps),
        co_serving=co_serving(snapshot.engine, snapshot.steps if snapshot.engine and snapshot.engine.sums else None),
        spatial=snapshot.spatial,
        tenants=[
            *(_offline(pod, counts.tenants[slot]) for slot, pod in snapshot.placements.slots),
            *(_offline(pod, each, "CoServe") for pod, each in snapshot.riders),
        ],
    )


def device_detail(snapshot: DeviceSnapshot, device: DeviceHarvest) -> DeviceDetail:
    """The device's report, with what is told by HTTP alone."""
    stops = (
        closing.acknowledged - closing.closed
        for closing in snapshot.closings
        if closing.acknowledged is not None and closing.tenants and closing.for_request
    )
    return DeviceDetail(
        **dict(device),
        in_flight=snapshot.counts.in_flight,
        stops=quantiles(stops),
        per_request_max=max((request.preemptions for request in snapshot.requests), default=0),
    )


def _told(snapshots: Sequence[DeviceSnapshot]) -> Iterator[list[DeviceSnapshot]]:
    """For each device those whose requests it tells: the first of a service and type all of them, the others none.

    Of an engine's devices one is among them.
    """
    attached_first = sorted(snapshots, key=lambda snapshot: snapshot.counts.online_processes == 0)
    telling = telling_devices({snapshot.config.id: snapshot.placements.online for snapshot in attached_first})
    same = defaultdict[object, list[DeviceSnapshot]](list)
    for snapshot in snapshots:
        if snapshot.config.id in telling:
            same[_service(snapshot)].append(snapshot)
    for snapshot in snapshots:
        yield same.pop(_service(snapshot), [])


def _service(snapshot: DeviceSnapshot) -> object:
    """By which devices are told apart; a pod that belongs to no service stands for itself."""
    pod = snapshot.placements.online
    return (pod.namespace, pod.service or pod.key, snapshot.hardware) if pod else None


def node_status(
    snapshots: Sequence[DeviceSnapshot],
    *,
    now: float,
    window: float,
    unix_offset: float,
) -> NodeHarvestStatus:
    """The node's report. `now` is when the snapshots were taken, Unix seconds."""
    over = grid(now, window)
    devices = [
        device_harvest(snapshot, served, window=window, over=over, unix_offset=unix_offset)
        for snapshot, served in zip(snapshots, _told(snapshots), strict=True)
    ]
    backends = {snapshot.config.backend for snapshot in snapshots}
    backend = backends.pop() if len(backends) == 1 else None
    return NodeHarvestStatus(update_time=_rfc3339(now), backend=backend, busy_grid=over, devices=devices)


def _rfc3339(unix_seconds: float) -> str:
    text = datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
