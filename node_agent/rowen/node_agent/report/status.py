"""What the agent saw, as a NodeHarvest status. Pure: no clock, no I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, inf

from rowen.crds.busy import BusyGrid, busy_cells, encode, grid
from rowen.crds.common import ObjectRef
from rowen.crds.node_harvest import (
    DeviceHarvest,
    MemoryTrace,
    NodeHarvestStatus,
    OfflineTenant,
    OnlineTenant,
    PoolOwners,
    Preemptions,
    Quantiles,
)
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.devices.device import Closing, DeviceCounts, Request, TenantCounts
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample, memory_trace
from rowen.node_agent.report.brief import brief
from rowen.node_agent.report.idles import LongIdles
from rowen.node_agent.report.latencies import Latencies


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


def quantiles(samples: Iterable[float]) -> Quantiles | None:
    """Nearest-rank quantiles, or None without samples."""
    ordered = sorted(samples)
    if not ordered:
        return None

    def at(fraction: float) -> float:
        return brief(ordered[max(0, ceil(fraction * len(ordered)) - 1)])

    return Quantiles(count=len(ordered), p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99), max=brief(ordered[-1]))


def _busy(snapshot: DeviceSnapshot, grid: BusyGrid, unix_offset: float) -> str:
    """When the gate was closed. One that is closed now is so until the grid's end, which lies a cell back at most."""
    stretches = (
        (closing.closed + unix_offset, inf if closing.opened is None else closing.opened + unix_offset)
        for closing in snapshot.closings
    )
    return encode(busy_cells(stretches, grid))


def _reference(pod: PodView) -> ObjectRef:
    return ObjectRef(namespace=pod.namespace, name=pod.name)


def _online(snapshot: DeviceSnapshot) -> OnlineTenant | None:
    pod = snapshot.placements.online
    if pod is None:
        return None
    return OnlineTenant(
        pod=_reference(pod),
        service=pod.service,
        attached=snapshot.counts.online_processes > 0,
        in_flight=snapshot.counts.in_flight,
        ttft=quantiles(request.ttft for request in snapshot.requests),
        tpot=quantiles(request.tpot for request in snapshot.requests if request.tpot is not None),
        requests=snapshot.latencies.windows(snapshot.counts.now) if snapshot.latencies else [],
    )


def _offline(pod: PodView, counts: TenantCounts) -> OfflineTenant:
    """A pod on one device. One on several is listed with each, every time with the progress of the whole pod.

    So a reader takes one entry's tokens, units and granted seconds, never their sum; preemptions and backstops are the
    device's own.
    """
    return OfflineTenant(
        pod=_reference(pod),
        job=pod.job,
        attached=counts.attached > 0,
        completed=counts.completed,
        total=counts.total,
        tokens=counts.tokens,
        granted_seconds=round(counts.granted_seconds if counts.reports else counts.open_seconds, 3),
        preemptions=counts.preemptions,
        backstops=counts.backstops,
    )


def _memory(snapshot: DeviceSnapshot, window: float) -> MemoryTrace | None:
    trace = memory_trace(snapshot.memory, snapshot.counts.now, window)
    if trace is None:
        return None
    return trace.model_copy(update={"seconds": brief(trace.seconds)})


def device_harvest(snapshot: DeviceSnapshot, *, window: float, over: BusyGrid, unix_offset: float) -> DeviceHarvest:
    """One device. `window` in seconds; `unix_offset` is what makes a monotonic time a Unix time."""
    counts = snapshot.counts
    latencies = [
        closing.acknowledged - closing.closed
        for closing in snapshot.closings
        if closing.acknowledged is not None and closing.tenants and closing.for_request
    ]
    return DeviceHarvest(
        id=snapshot.config.id,
        type=snapshot.hardware,
        memory_bytes=snapshot.config.memory_bytes,
        harvestable=snapshot.usable and counts.online_processes > 0,
        gate_open=counts.gate_open,
        idle_fraction=brief(snapshot.idle_fraction),
        harvested_fraction=brief(snapshot.harvested_fraction),
        covered_seconds=brief(min(window, snapshot.covered)),
        decode_gap_seconds=brief(counts.decode_gap),
        cooldown_seconds=brief(counts.cooldown),
        idles=snapshot.idles.windows(window) if snapshot.idles else [],
        busy=_busy(snapshot, over, unix_offset),
        preemptions=Preemptions(
            total=counts.preemptions,
            latency=quantiles(latencies),
            per_request_max=max((request.preemptions for request in snapshot.requests), default=0),
        ),
        memory=_memory(snapshot, window),
        pool=snapshot.pool,
        online=_online(snapshot),
        tenants=[_offline(pod, counts.tenants[slot]) for slot, pod in snapshot.placements.slots],
    )


def node_status(
    snapshots: Sequence[DeviceSnapshot],
    *,
    now: float,
    window: float,
    unix_offset: float,
) -> NodeHarvestStatus:
    """The node's report. `now` is when the snapshots were taken, Unix seconds."""
    over = grid(now, window)
    devices = [device_harvest(snapshot, window=window, over=over, unix_offset=unix_offset) for snapshot in snapshots]
    backends = {snapshot.config.backend for snapshot in snapshots}
    backend = backends.pop() if len(backends) == 1 else None
    return NodeHarvestStatus(update_time=_rfc3339(now), backend=backend, busy_grid=over, devices=devices)


def _rfc3339(unix_seconds: float) -> str:
    text = datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
