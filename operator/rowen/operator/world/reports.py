"""The nodes' harvest reports, as policies read them."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus, OfflineTenant
from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.timestamps import unix_or_none

_UNREAD = ("busy", "available")


@dataclass(frozen=True)
class Report:
    """One node's report."""

    node: str
    time: float | None
    """When the node gave its last sign of life, Unix seconds; None before the first one."""
    devices: tuple[DeviceHarvest, ...] = ()
    heard: float = 0.0
    """When that sign was first seen, Unix seconds: the node was there then, however old the sign is."""

    def also(self, sign: "Sign") -> "Report":
        """The report, where the node has given this sign of life too."""
        times = [time for time in (self.time, sign.time) if time is not None]
        return replace(self, time=max(times, default=None), heard=max(self.heard, sign.heard))

    def fresh(self, now: float) -> bool:
        """Whether the node is there, so that its report can be acted on."""
        return self.age(now) <= NODE_LEASE_SECONDS

    def age(self, now: float) -> float:
        """Seconds since the node gave a sign of life."""
        return float("inf") if self.time is None else now - self.time


@dataclass(frozen=True)
class Sign:
    """A node's last sign of life: that its heartbeat has changed, or its report. Unix seconds."""

    stamp: float | None
    """The node's own time, of use only to tell whether it has changed."""
    time: float | None
    """When it was given, on this clock: a node whose own clock is wrong is neither lost nor there for ever."""
    heard: float
    """When it was first seen."""


def noticed(before: Sign | None, stamp: float | None, now: float) -> Sign:
    """The last sign of life, where the last one seen carries this time. One that was there at first may be old."""
    if before is not None and before.stamp == stamp:
        return before
    if stamp is None:
        return Sign(None, None, now)
    return Sign(stamp, min(stamp, now) if before is None else now, now)


def read_report(harvest: Mapping[str, Any]) -> Report:
    """Reads a NodeHarvest as the API server returns it, with the node's own time. Raises `pydantic.ValidationError`."""
    status = dict(harvest.get("status") or {})
    # When devices were busy, and what memory was left, is for the scheduler alone.
    devices = status.get("devices") or ()
    status["devices"] = [{name: device[name] for name in device if name not in _UNREAD} for device in devices]
    parsed = NodeHarvestStatus.from_wire(status)
    return Report(harvest["metadata"]["name"], unix_or_none(parsed.update_time), tuple(parsed.devices))


def tenancies(report: Report, namespace: str, pod: str) -> list[tuple[DeviceHarvest, OfflineTenant]]:
    """The devices on which an offline pod runs, with its entry on each."""
    return [
        (device, tenant)
        for device in report.devices
        for tenant in device.tenants
        if (tenant.pod.namespace, tenant.pod.name) == (namespace, pod)
    ]


def service_devices(
    report: Report, namespace: str, service: str, pods: Container[tuple[str | None, str]] | None = None
) -> list[DeviceHarvest]:
    """The devices that pods of an OnlineService hold; `pods`: the node and name of each, None where they are not known.

    An agent speaks for its own node alone: what it says of a pod that is not there counts for nothing.
    """
    return [
        device
        for device in report.devices
        if device.online
        and (device.online.pod.namespace, device.online.service) == (namespace, service)
        and (pods is None or (report.node, device.online.pod.name) in pods)
    ]
