"""Predicted throughput of a job on devices, as a product of factors."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowen.scheduler.alignment import length, union
from rowen.scheduler.snapshot import DeviceView


@dataclass(frozen=True, slots=True)
class Prediction:
    """The factors, each in [0, 1]."""

    idle: float
    """I: part of the time in which no device of the set is busy."""
    memory: float
    """M: 1 when the job's memory fits beside what is there, 0 when not."""
    alignment: float
    """Least pairwise alignment of the devices; it admits, it does not multiply."""
    sharing: float
    """Part of the idle time that is left beside other offline tenants."""

    @property
    def fraction(self) -> float:
        """Throughput as a fraction of the throughput alone."""
        return self.idle * self.memory * self.sharing


def idle_fraction(devices: Sequence[DeviceView], window: float) -> float:
    """I of a set in lockstep: it is idle only while every device is. `window` in seconds."""
    least = min(device.idle for device in devices)
    if len(devices) == 1:
        return least
    busy = length(union(device.busy for device in devices))
    return max(0.0, min(least, 1.0 - busy / window))
