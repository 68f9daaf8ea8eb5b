"""What the agent saw, as a NodeHarvest status. Pure: no clock, no I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from rowen.crds.common import ObjectRef
from rowen.crds.node_harvest import (
    DeviceHarvest,
    Interval,
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

MOST_INTERVALS = 256


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
    requests: tuple[Request, ...]
    closings: tuple[Closing, ...]
    placements: Placements
    pool: PoolOwners | None = None
    """Whose its memory is; None: it does not change its owner."""
    memory: tuple[MemorySample, ...] = ()
    """How it was shared over the window."""


def quantiles(samples: Iterable[float]) -> Quantiles | None:
    """Nearest-rank quantiles, or None without samples."""
    ordered = sorted(samples)
    if not ordered:
        return None

    def at(fraction: float) -> float:
        return ordered[max(0, ceil(fraction * len(ordered)) - 1)]

    return Quantiles(count=len(ordered), p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99), max=ordered[-1])


def merged(intervals: Sequence[tuple[float, float]], limit: int) -> list[tuple[float, float]]:
    """At most `limit` intervals that cover the given ones, in order; the shortest gaps are closed first."""
    if len(intervals) <= limit:
        return list(intervals)
    gaps = sorted(range(1, len(intervals)), key=lambda i: intervals[i][0] - intervals[i - 1][1])
    closed = set(gaps[: len(intervals) - limit])
    result = [intervals[0]]
    for index in range(1, len(intervals)):
        if index in closed:
            result[-1] = (result[-1][0], intervals[index][1])
        else:
            result.append(intervals[index])
    return result


def _busy_intervals(snapshot: DeviceSnapshot, window: float, unix_offset: float) -> list[Interval]:
    now = snapshot.counts.now
    begin = now - window
    busy = [
        (max(begin, closing.closed), now if closing.opened is None else closing.opened)
        for closing in snapshot.closings
        if closing.opened is None or closing.opened > begin
    ]
    return [
        Interval(start=start + unix_offset, end=max(start, end) + unix_offset)
        for start, end in merged(busy, MOST_INTERVALS)
    ]


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
        granted_seconds=counts.granted_seconds if counts.reports else counts.open_seconds,
        preemptions=counts.preemptions,
        backstops=counts.backstops,
    )


def device_harvest(snapshot: DeviceSnapshot, *, window: float, unix_offset: float) -> DeviceHarvest:
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
        idle_fraction=snapshot.idle_fraction,
        harvested_fraction=snapshot.harvested_fraction,
        decode_gap_seconds=counts.decode_gap,
        cooldown_seconds=counts.cooldown,
        busy_intervals=_busy_intervals(snapshot, window, unix_offset),
        preemptions=Preemptions(
            total=counts.preemptions,
            latency=quantiles(latencies),
            per_request_max=max((request.preemptions for request in snapshot.requests), default=0),
        ),
        memory=memory_trace(snapshot.memory, counts.now, window),
        pool=snapshot.pool,
        online=_online(snapshot),
        tenants=[_offline(pod, counts.tenants[slot]) for slot, pod in snapshot.placements.slots],
    )


def node_status(
    snapshots: Sequence[DeviceSnapshot],
    *,
    time: str,
    window: float,
    unix_offset: float,
) -> NodeHarvestStatus:
    """The node's report. `time` is RFC 3339 and stands for the moment at which the snapshots were taken."""
    devices = [device_harvest(snapshot, window=window, unix_offset=unix_offset) for snapshot in snapshots]
    backends = {snapshot.config.backend for snapshot in snapshots}
    backend = backends.pop() if len(backends) == 1 else None
    return NodeHarvestStatus(update_time=time, backend=backend, devices=devices)
