"""A device that is served: its gate, its pods, their memory, and what happened on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from rowen.crds.ride.messages import StepSums
from rowen.node_agent.attach.guests import Guests
from rowen.node_agent.attach.offence import kept_memory, withheld_memory
from rowen.node_agent.attach.watch import Notice
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.devices.backend import Backend, Gate
from rowen.node_agent.devices.counts import DeviceCounts, TenantCounts
from rowen.node_agent.devices.lending import Lending
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.report.latencies import Latencies
from rowen.node_agent.report.status import DeviceSnapshot
from rowen.node_agent.report.steps import StepWindow
from rowen.node_agent.report.window import Window
from rowen.node_agent.ride.view import EngineView

log = structlog.get_logger()


@dataclass
class ServedDevice:
    """A device with its gate and its history."""

    config: DeviceConfig
    backend: Backend
    hardware: str
    gate: Gate
    guests: Guests
    window: Window = field(default_factory=Window)
    latencies: Latencies = field(default_factory=Latencies)
    steps: StepWindow = field(default_factory=StepWindow)
    placements: Placements = field(default_factory=Placements)
    lending: Lending | None = None
    """Of its pool; None: it has none."""
    used_slots: set[int] = field(default_factory=set)

    def clear(self, slot: int) -> bool:
        """For its next pod; False while a process of the last one is still attached."""
        if not self.gate.reset(slot):
            return False
        self.guests.forget(slot)
        return True

    def place(self, placements: Placements) -> None:
        """Takes note of who is here, and clears the slots of pods that are gone."""
        self.placements = placements
        held = {slot for slot, _ in placements.slots}
        self.used_slots -= {slot for slot in self.used_slots - held if self.clear(slot)}
        self.used_slots |= held
        self._learn()

    def _learn(self) -> None:
        """Pods of which no process attaches are known by the kubelet's word alone."""
        for slot, pod in self.placements.slots:
            try:
                if pod.uid:
                    self.guests.learn(slot, pod.uid)
            except OSError as error:
                log.warning("a pod's cgroup cannot be used", pod=pod.name, error=str(error))

    def keepers(self, open_seconds: Sequence[float], now: float) -> list[Notice]:
        """Pods that do not give memory back, or do not hand it over.

        `open_seconds`: how long the gate was open for each slot so far. `now`: seconds, monotonic clock.
        """
        if self.lending is None:
            return []
        due = {slot: withheld_memory() for slot in self.lending.withheld(open_seconds, now)}
        due |= {slot: kept_memory(kept) for slot, kept in self.lending.keepers(now).items()}
        pods = [(self.guests.pod(slot), decision) for slot, decision in due.items()]
        return [Notice(pod, decision) for pod, decision in pods if pod is not None]

    def count_steps(self, counts: DeviceCounts, engine: EngineView | None, window: float) -> StepSums:
        """Keeps what the engine's steps were made of; returns what has been added since the last call.

        By what an engine that takes riders in says of them, else by what every engine's plugin tells the device.
        `window` in seconds.
        """
        source, sums = (engine.since, engine.sums) if engine else (None, counts.steps)
        if sums is None:
            self.steps.begin(source)
            return StepSums()
        return self.steps.add(counts.now, source, sums, window)

    def snapshot(
        self, engine: EngineView | None, riders: tuple[tuple[PodView, TenantCounts], ...], *, usable: bool
    ) -> DeviceSnapshot:
        """What a report is made from. `engine`: one that takes riders in, and they; `usable`: it has no fault."""
        idle, harvested = self.window.fractions()
        return DeviceSnapshot(
            config=self.config,
            hardware=self.hardware,
            usable=usable,
            counts=self.gate.counts(),
            idle_fraction=idle,
            harvested_fraction=harvested,
            covered=self.window.covered,
            requests=tuple(self.window.requests),
            closings=tuple(self.window.closings),
            placements=self.placements,
            pool=self.lending.owned if self.lending else None,
            memory=tuple(self.window.memory),
            idles=self.window.idles,
            latencies=self.latencies,
            engine=engine,
            riders=riders,
            steps=self.steps.span(),
            spatial=self.window.spatial(),
        )
