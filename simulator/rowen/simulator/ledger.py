"""Where all device time has gone."""

from dataclasses import dataclass

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.shape import Shape


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Device seconds; the four parts make up the whole."""

    online: float
    """A request is in flight."""
    cooldown: float
    """The gate is closed, and none is."""
    harvested: float
    """The gate is open and offline work computes."""
    idle: float
    """The gate is open and nobody computes: no job, one that still starts, or waits for another device or memory."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.online + self.cooldown + self.harvested + self.idle


class Ledger:
    """Adds up device time, by device and by step."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._steps: list[tuple[float, float, float]] = []
        self._online, self._closed, self.harvested_by_device = (np.zeros(shape.devices) for _ in range(3))

    def add(self, busy: Floats, closed: Floats, harvested: Floats) -> None:
        """One step: seconds of each service that it was busy and its gate closed, and seconds of each device used."""
        each = self._shape.devices_per_service
        self._online += np.repeat(busy, each)
        self._closed += np.repeat(closed, each)
        self.harvested_by_device += harvested
        whole = self._shape.devices * self._shape.step_seconds
        parts = (busy.sum() * each, (closed - busy).sum() * each, harvested.sum())
        self._steps.append((float(parts[0] / whole), float(parts[1] / whole), float(parts[2] / whole)))

    @property
    def seconds(self) -> float:
        """So far."""
        return len(self._steps) * self._shape.step_seconds

    @property
    def online_by_device(self) -> Floats:
        """Seconds of each device with a request in flight."""
        return self._online

    @property
    def open_by_device(self) -> Floats:
        """Seconds of each device with the gate open."""
        return self.seconds - self._closed

    def time(self) -> DeviceTime:
        """All devices together."""
        harvested, online, closed = (
            float(part.sum()) for part in (self.harvested_by_device, self._online, self._closed)
        )
        return DeviceTime(online, closed - online, harvested, self.seconds * self._shape.devices - closed - harvested)

    def series(self) -> Floats:
        """A row for each step: parts of all device time that were online, cooldown and harvested."""
        return np.array(self._steps).reshape(-1, 3)
