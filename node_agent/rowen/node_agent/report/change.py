"""Whether a report says something new that matters, so that it is worth a write. Pure: no clock, no I/O.

Facts are written at once: which devices and tenants there are, and what is attached. Figures are written when they have
moved by much, and not too often. What is written in any case is written seldom: bitmaps and long windows age.
"""

from dataclasses import dataclass
from statistics import fmean

from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus, OfflineTenant, Quantiles
from rowen.crds.names import PROGRESS_SECONDS, REPORT_SECONDS

_FRACTION = 0.05
"""Part of the time, or of a device's memory, that is much."""
_RATIO = 0.25
"""Part of its old value by which a latency moves that moves by much."""
_COVERED = 0.25
"""Part of the window likewise, while the fractions do not yet cover it."""


@dataclass(frozen=True, slots=True)
class Written:
    """The last report that was accepted."""

    time: float
    """When it was made, in seconds on the clock that `due` is asked by."""
    status: NodeHarvestStatus


def due(written: Written | None, status: NodeHarvestStatus, now: float, window_seconds: float) -> bool:
    """Whether the status is to be written. `now`: seconds, monotonic clock."""
    if written is None:
        return True
    age, before = now - written.time, written.status
    if age >= min(REPORT_SECONDS, window_seconds) or _facts(status) != _facts(before):
        return True
    if age < PROGRESS_SECONDS:
        return False
    # Progress is measured from one report to the next, and its absence too.
    working = any(tenant.attached for device in status.devices for tenant in device.tenants)
    pairs = zip(before.devices, status.devices, strict=True)
    return working or any(_moved(old, new, window_seconds) for old, new in pairs)


def _facts(status: NodeHarvestStatus) -> object:
    return status.backend, [_device_facts(device) for device in status.devices]


def _device_facts(device: DeviceHarvest) -> object:
    online, pool, riding = device.online, device.pool, device.co_serving
    return (
        (device.id, device.type, device.memory_bytes, device.harvestable),
        (online.pod, online.service, online.attached) if online else None,
        [_tenant_facts(tenant) for tenant in device.tenants],
        (riding.seats, riding.ended) if riding else None,
        pool.fixed_bytes if pool else None,
        device.available is None,
        len(device.idles),
    )


def _tenant_facts(tenant: OfflineTenant) -> object:
    done = 0 < tenant.total <= tenant.completed
    return tenant.pod, tenant.job, tenant.mode, tenant.attached, tenant.backstops, done


def _moved(old: DeviceHarvest, new: DeviceHarvest, window_seconds: float) -> bool:
    """Whether any of a device's figures has moved by much."""
    return (
        abs(new.idle_fraction - old.idle_fraction) >= _FRACTION
        or abs(new.harvested_fraction - old.harvested_fraction) >= _FRACTION
        or abs(_covered(new, window_seconds) - _covered(old, window_seconds)) >= _COVERED * window_seconds
        or any(abs(a.fraction - b.fraction) >= _FRACTION for a, b in zip(old.idles, new.idles, strict=True))
        or _spatial_moved(old, new)
        or _memory_moved(old, new)
        or any(_latency_moved(a, b) for a, b in _latencies(old, new))
    )


def _covered(device: DeviceHarvest, window_seconds: float) -> float:
    return window_seconds if device.covered_seconds is None else device.covered_seconds


def _spatial_moved(old: DeviceHarvest, new: DeviceHarvest) -> bool:
    before, after = ((each.share, each.open_fraction) if each else (0.0, 0.0) for each in (old.spatial, new.spatial))
    # By the time alone, and by what that was worth: the share of a moment says little.
    opened = abs(after[1] - before[1]) >= _FRACTION
    return opened or abs(after[0] * after[1] - before[0] * before[1]) >= _FRACTION


def _memory_moved(old: DeviceHarvest, new: DeviceHarvest) -> bool:
    much = _FRACTION * new.memory_bytes
    figures = [(fmean(old.available_bytes), fmean(new.available_bytes))] if old.available and new.available else []
    if old.pool and new.pool:
        before, after = old.pool.model_dump(), new.pool.model_dump()
        figures += [(before[name], after[name]) for name in after]
    return any(abs(a - b) >= much for a, b in figures)


def _latencies(old: DeviceHarvest, new: DeviceHarvest) -> list[tuple[Quantiles | None, Quantiles | None]]:
    if old.online is None or new.online is None:
        return []
    return [(old.online.ttft, new.online.ttft), (old.online.tpot, new.online.tpot)]


def _latency_moved(old: Quantiles | None, new: Quantiles | None) -> bool:
    if old is None or new is None:
        return (old is None) != (new is None)
    return any(
        _other(a, b) for a, b in ((old.p50, new.p50), (old.p90, new.p90), (old.p95, new.p95), (old.p99, new.p99))
    )


def _other(old: float, new: float) -> bool:
    return abs(new - old) > _RATIO * abs(old)
