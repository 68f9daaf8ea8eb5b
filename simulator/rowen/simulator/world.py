"""What the scheduler sees: the only module that builds its views.

Every node is heard at every pass. The report's figures are the agent's: idle fractions with the cooldowns taken off,
bitmaps of when the gate was closed, memory that offline work could have in each step of the window. Longer windows are
exact here; the agent's are some percent longer than they say.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from rowen.crds.harvest.busy import BusyCells
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.node_agent.report.idles import WINDOWS_SECONDS
from rowen.scheduler.device import DeviceView, TenantView
from rowen.scheduler.model.idle import IdleWindow
from rowen.scheduler.model.prediction import foreseen
from rowen.scheduler.snapshot import JobKey, JobView, NodeView, Snapshot
from rowen.simulator.arrays import Cells, Floats
from rowen.simulator.jobs import Job
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.service import CELLS
from rowen.simulator.running import Run
from rowen.simulator.shape import Shape

NAMESPACE = "simulated"
_TYPE = "simulated"
_STATUS = OfflineJobStatus()
Service = tuple[float, BusyCells, tuple[IdleWindow, ...]]
"""Idle fraction, bitmap, longer windows."""


def node_name(number: int) -> str:
    """Name of a node, counted from 0; names sort like numbers."""
    return f"node-{number:05d}"


def job_view(job: Job) -> JobView:
    """A job that has just arrived."""
    kind = job.kind
    return JobView(
        uid=job.name,
        namespace=NAMESPACE,
        name=job.name,
        workload=kind.name,
        memory=kind.memory_bytes,
        pool=kind.want_bytes,
        need=kind.need if kind.want_bytes else None,
        devices=kind.devices,
        sla=job.sla,
        priority=kind.priority,
        solo=kind.tokens_per_second,
        created=job.arrival,
        status=_STATUS,
    )


class World:
    """The reports of all nodes over time, and the snapshot at each pass."""

    def __init__(self, shape: Shape, engine: Engine) -> None:
        self._shape = shape
        self._online_memory = engine.memory_bytes + engine.pool_bytes
        self._window = round(shape.window_seconds / shape.step_seconds)
        most = max(self._window, round(max(WINDOWS_SECONDS) / shape.step_seconds))
        self._closed: deque[Floats] = deque([np.zeros(shape.services)], maxlen=most + 1)
        self._cells: deque[Cells] = deque(maxlen=self._window)
        self._available: deque[Floats] = deque(maxlen=self._window)
        self._names = tuple(node_name(number) for number in range(shape.nodes))
        self._ids = tuple(f"gpu{index}" for index in range(shape.devices_per_node))

    def step(self, closed: Floats, cells: Cells, available: Floats) -> None:
        """One step more: seconds closed in it and a bitmap, by service, and bytes that the pool lent, by device."""
        self._closed.append(self._closed[-1] + closed)
        self._cells.append(cells)
        self._available.append(available)

    def devices(self, node: str, ids: Sequence[str]) -> tuple[int, ...]:
        """Numbers of devices in the whole fleet."""
        first = int(node.rpartition("-")[2])
        return tuple(first * self._shape.devices_per_node + self._ids.index(id_) for id_ in ids)

    def snapshot(self, now: float, jobs: Mapping[JobKey, JobView], runs: Sequence[Run]) -> Snapshot:
        """Everything as it is reported at `now`, in seconds."""
        tenants: dict[int, list[TenantView]] = {}
        for run in runs:
            tenant = TenantView(NAMESPACE, run.pod.name, int(run.tokens), run.granted)
            for device in run.devices:
                tenants.setdefault(device, []).append(tenant)
        services, available = self._services(), np.sort(np.stack(self._available), axis=0).T.astype(np.int64)
        lent = list(map(tuple, available.tolist()))
        per_service, per_node = self._shape.devices_per_service, self._shape.devices_per_node
        nodes: dict[str, NodeView] = {}
        for number, name in enumerate(self._names):
            first = number * per_node
            devices = tuple(
                self._device(name, id_, services[device // per_service], lent[device], tenants.get(device, ()))
                for device, id_ in enumerate(self._ids, first)
            )
            nodes[name] = NodeView(
                name,
                slots=per_node * self._shape.slots_per_device,
                reported=now,
                told=now,
                heard=now,
                window=self._window_seconds,
                devices=devices,
            )
        return Snapshot(nodes, jobs, tuple(run.pod for run in runs))

    def _device(
        self,
        node: str,
        id_: str,
        service: Service,
        available: tuple[int, ...],
        tenants: Sequence[TenantView],
    ) -> DeviceView:
        idle, busy, idles = service
        seen = DeviceView(
            node,
            id_,
            _TYPE,
            self._shape.memory_bytes,
            idle,
            busy,
            idles,
            available,
            self._online_memory,
            tenants=tuple(tenants),
        )
        return foreseen(seen, self._window_seconds)

    @property
    def _window_seconds(self) -> float:
        """That the reports cover: less than a window at the beginning."""
        return len(self._cells) * self._shape.step_seconds

    def _services(self) -> list[Service]:
        """What is reported of each."""
        idle = self._idle(len(self._cells))
        longer = [(seconds, fractions.tolist()) for seconds, fractions in self._longer()]
        bits = [int(cells) for cells in self._cells[0]]
        for index in range(1, len(self._cells)):
            bits = [old | int(new) << CELLS * index for old, new in zip(bits, self._cells[index], strict=True)]
        width = CELLS * len(self._cells)
        return [
            (
                fraction,
                BusyCells(bits[service], width),
                tuple(IdleWindow(seconds, fractions[service]) for seconds, fractions in longer),
            )
            for service, fraction in enumerate(idle.tolist())
        ]

    def _idle(self, steps: int) -> Floats:
        """Part of the last steps in which the gate was open."""
        closed = self._closed[-1] - self._closed[-1 - steps]
        return np.clip(1.0 - closed / (steps * self._shape.step_seconds), 0.0, 1.0)

    def _longer(self) -> list[tuple[float, Floats]]:
        """An hour and a day, as far as seen: what covers more than the window before."""
        found = []
        least = len(self._cells)
        for seconds in WINDOWS_SECONDS:
            steps = min(len(self._closed) - 1, round(seconds / self._shape.step_seconds))
            if steps > least:
                found.append((steps * self._shape.step_seconds, self._idle(steps)))
                least = steps
        return found
