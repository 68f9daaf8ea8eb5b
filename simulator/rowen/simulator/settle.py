"""What the jobs do in a step: `settle`.

1. A job computes while the gates of all its devices are open, from the moment on at which it has started.
2. Tenants of a device share its open time equally, and what the pool lends too, from which the memory that each has for
   itself is taken off first. A job in lockstep goes at the pace of the device with the most tenants, and with the least
   memory.
3. Its throughput is that alone, times its part of the time, times M of the memory that it has
   (`JobClass.memory_factor`): the formula that the scheduler predicts by, here on the memory of this very step.
4. A device is harvested while a job on it computes: not while its memory lets it make nothing (M = 0). What two jobs
   in lockstep with other devices do together counts as what the one does that computes longer: it can be no less.
"""

from dataclasses import dataclass, field

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.jobs import JobClass
from rowen.simulator.node.intervals import either
from rowen.simulator.node.stretches import Stretches
from rowen.simulator.running import Run
from rowen.simulator.shape import Shape


@dataclass(slots=True, eq=False)
class Settling:
    """A stretch, with what jobs have asked of it so far."""

    shape: Shape
    part: Stretches
    _open: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    def open_seconds(self, services: tuple[int, ...]) -> Floats:
        """Seconds of each step in which the gates of all these services are open."""
        if services not in self._open:
            if len(services) == 1:
                closed = self.part.closed[services[0]]
            else:
                closed = either([self.part.gates[service] for service in services]).covered(self.part.edges)
            self._open[services] = self.shape.step_seconds - np.diff(closed)
        return self._open[services]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """A step that is over, by device."""

    harvested: Floats
    """Seconds in which offline work computed."""
    available: Floats
    """Bytes of the pool that the jobs could share, beside what each has for itself."""


def settle(settling: Settling, step: int, runs: list[Run]) -> Settled:
    """Lets the jobs run for a step of the stretch."""
    shape, part = settling.shape, settling.part
    begin, end = float(part.edges[step]), float(part.edges[step + 1])
    harvested = np.zeros(shape.devices)
    available = np.repeat(part.available[:, step], shape.devices_per_service)
    tenants = [0] * shape.devices
    for run in runs:
        for device in run.devices:
            tenants[device] += 1
            available[device] -= run.progress.job.kind.memory_bytes
    available = np.maximum(available, 0.0)
    factors = _Factors(available)
    for run in runs:
        if run.ready >= end:
            continue
        most = max(tenants[device] for device in run.devices)
        seconds = float(settling.open_seconds(run.services)[step]) * min(1.0, (end - run.ready) / (end - begin))
        used = _advance(run, seconds, most, min(factors.of(run, most)), max(begin, run.ready), end)
        for device in run.devices:
            harvested[device] = max(harvested[device], used)
    return Settled(harvested, available)


class _Factors:
    """M of each device, worked out once for each class of jobs and number of tenants."""

    def __init__(self, available: Floats) -> None:
        self._available = available
        self._known: dict[tuple[str, int], list[float]] = {}

    def of(self, run: Run, tenants: int) -> list[float]:
        kind = run.progress.job.kind
        key = kind.name, tenants
        if key not in self._known:
            self._known[key] = _factor(kind, self._available / tenants)
        return [self._known[key][device] for device in run.devices]


def _factor(kind: JobClass, available: Floats) -> list[float]:
    factors: list[float] = kind.memory_factor(available).tolist()
    return factors


def _advance(run: Run, seconds: float, tenants: int, factor: float, begin: float, end: float) -> float:
    """Lets a job compute in the open seconds between two moments; returns in how many of them it made something."""
    progress = run.progress
    made = progress.job.kind.tokens_per_second * seconds * factor / tenants
    missing = progress.job.tokens - progress.tokens
    part = 1.0
    if made >= missing:
        part = missing / made
        progress.finished = begin + part * (end - begin)
    progress.tokens += made * part
    run.tokens += made * part
    run.granted += seconds * part
    return seconds * part if factor > 0.0 else 0.0
