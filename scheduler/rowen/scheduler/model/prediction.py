"""Predicted throughput of a job on devices, as a product of factors."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowen.crds.harvest.busy import BusyCells, together
from rowen.scheduler.device import DeviceView
from rowen.scheduler.model.idle import IdleLevel, IdleWindow, bursts, idle_level, sampling_deviation

_SHARING_DOUBT = 0.05
"""Relative standard deviation of a tenant's part of a shared device: tenants do not get exactly alike."""


class Prediction(NamedTuple):
    """The factors, each in [0, 1]."""

    idle: float
    """I: part of the time in which no device of the set is busy."""
    memory: float
    """M: throughput with the memory that the pool lends, over the throughput with all that the job wants."""
    alignment: float
    """Least pairwise alignment of the devices; it admits, it does not multiply."""
    sharing: float
    """Part of the idle time that is left beside other offline tenants."""
    fits: bool = True
    """Whether the job's own memory fits beside what is there."""
    uncertainty: float = 0.0
    """Relative standard deviation of the fraction, as far as the factors tell."""

    @property
    def fraction(self) -> float:
        """Throughput as a fraction of the throughput alone; 0 where the job does not fit."""
        # In this order: so a search over columns of idle x sharing comes to the very same number.
        return self.idle * self.sharing * self.memory if self.fits else 0.0


def combined(idle: IdleLevel, memory_doubt: float, sharing: float) -> float:
    """Relative standard deviation of a product of factors that err independently (their squares add up)."""
    of_idle = idle.deviation / idle.fraction if idle.fraction > 0.0 else 0.0
    of_sharing = _SHARING_DOUBT if sharing < 1.0 else 0.0
    return sqrt(of_idle * of_idle + memory_doubt * memory_doubt + of_sharing * of_sharing)


def combined_each(
    of_idle: NDArray[np.float64], memory_doubts: NDArray[np.float64], shared: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The same of many devices: relative deviations of their idle time, and which of them have tenants already."""
    of_sharing = np.where(shared, _SHARING_DOUBT, 0.0)
    found: NDArray[np.float64] = np.sqrt(of_idle * of_idle + memory_doubts * memory_doubts + of_sharing * of_sharing)
    return found


def foreseen(device: DeviceView, window: float) -> DeviceView:
    """A device with what its report lets foresee of its idle time, out of all its windows; `window`: the shortest.

    Seconds.
    """
    level = idle_level(IdleWindow(window, device.idle), bursts(device.busy), device.idles)
    return replace(device, idle=level.fraction, seen_idle=device.idle, deviation=level.deviation)


def seen_fraction(devices: Sequence[DeviceView]) -> float:
    """I of a set in lockstep in the report's window: it is idle only while every device is.

    0 where it is not known when each was busy.
    """
    least = min(_seen(device) for device in devices)
    if len(devices) == 1:
        return least
    busy = _together(devices)
    return min(least, 1.0 - busy.fraction) if busy is not None else 0.0


def seen_idle(devices: Sequence[DeviceView]) -> IdleLevel:
    """The same with the noise of so short a window."""
    fraction = seen_fraction(devices)
    return IdleLevel(fraction, sampling_deviation(fraction, bursts(_together(devices))))


def idle_fraction(devices: Sequence[DeviceView]) -> float:
    """I of a set in lockstep, as foreseen.

    That the set is less idle than its least idle device is taken from the report's window, the only place where devices
    are seen together.
    """
    least = min(device.idle for device in devices)
    if len(devices) == 1:
        return least
    apart = min(_seen(device) for device in devices)
    return least * seen_fraction(devices) / apart if apart > 0.0 else 0.0


def idle_of(devices: Sequence[DeviceView]) -> IdleLevel:
    """I of a set in lockstep, with the largest deviation of its devices."""
    return IdleLevel(idle_fraction(devices), max(device.deviation for device in devices))


def _together(devices: Sequence[DeviceView]) -> BusyCells | None:
    """When at least one of them was busy; None where that of one is not known."""
    known = [device.busy for device in devices if device.busy is not None]
    return together(known) if len(known) == len(devices) else None


def _seen(device: DeviceView) -> float:
    return device.idle if device.seen_idle is None else device.seen_idle
