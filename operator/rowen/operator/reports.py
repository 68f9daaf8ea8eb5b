"""The nodes' harvest reports, as policies read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowen.crds.node_harvest import DeviceHarvest, NodeHarvestStatus, OfflineTenant
from rowen.operator.timestamps import unix_or_none

FRESH_SECONDS = 15.0
"""A report is read for so long; it is the lease that it renews."""


@dataclass(frozen=True)
class Report:
    """One node's report."""

    node: str
    time: float | None
    """When the node last reported, Unix seconds; None before the first report."""
    devices: tuple[DeviceHarvest, ...] = ()
    heard: float = 0.0
    """When it was first seen as it is, Unix seconds: the node was there then, however old the report is."""

    def fresh(self, now: float) -> bool:
        """Whether it is recent enough to act on."""
        return self.age(now) <= FRESH_SECONDS

    def age(self, now: float) -> float:
        """Seconds since the node reported."""
        return float("inf") if self.time is None else now - self.time


def read_report(harvest: Mapping[str, Any]) -> Report:
    """Reads a NodeHarvest as the API server returns it, with the node's own time. Raises `pydantic.ValidationError`."""
    status = dict(harvest.get("status") or {})
    # The longest part of a report is for the scheduler alone.
    devices = status.get("devices") or ()
    status["devices"] = [{name: device[name] for name in device if name != "busyIntervals"} for device in devices]
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


def service_devices(report: Report, namespace: str, service: str) -> list[DeviceHarvest]:
    """The devices that pods of an OnlineService hold."""
    return [
        device
        for device in report.devices
        if device.online and (device.online.pod.namespace, device.online.service) == (namespace, service)
    ]
