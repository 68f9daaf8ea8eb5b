"""The node's devices and what is known of them: the state that the agent's loops share."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from rowen.node_agent.allocation import (
    SOCKET,
    Allocation,
    device_directory,
    door_directory,
    harvest_allocation,
    install_libraries,
    online_allocation,
)
from rowen.node_agent.attach.cgroup import Cgroups
from rowen.node_agent.attach.door import Door, Doorway
from rowen.node_agent.attach.guests import Guests
from rowen.node_agent.attach.offence import kept_memory, withheld_memory
from rowen.node_agent.attach.watch import Notice, Watch
from rowen.node_agent.backend import Backend, Gate
from rowen.node_agent.backends import backend_of
from rowen.node_agent.config import DeviceConfig, Settings
from rowen.node_agent.device import DeviceCounts
from rowen.node_agent.faults import Faults
from rowen.node_agent.lease import lease_until
from rowen.node_agent.lending import Lending
from rowen.node_agent.metrics import Metrics
from rowen.node_agent.plugin import AllocationRefused
from rowen.node_agent.pods import Holders, Placements, PodView, device_and_slot, placements, preferred_slots
from rowen.node_agent.report import DeviceSnapshot
from rowen.node_agent.window import Window

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
    placements: Placements = field(default_factory=Placements)
    lending: Lending | None = None
    """Of its pool; None: it has none."""
    used_slots: set[int] = field(default_factory=set)


class Node:
    """All devices of this node."""

    def __init__(
        self,
        settings: Settings,
        configs: Sequence[DeviceConfig],
        backend_of: Callable[[DeviceConfig], Backend] = backend_of,
    ) -> None:
        """Serves those of the devices that can be served.

        Raises `OSError`; `BlockingIOError`: another agent serves one of them.
        """
        self._run = settings.run_directory
        self._backstop_seconds = settings.backstop_seconds
        self._configured = {config.id: (config, backend_of(config)) for config in configs}
        self._looks = Faults({name: backend for name, (_, backend) in self._configured.items()})
        self.faults: dict[str, str] = {}
        """Why devices cannot be used now, by id."""
        self.metrics = Metrics(settings.node)
        self.pods: list[PodView] = []
        self.last_accepted: float | None = None
        """When the snapshot of the last accepted report was taken (monotonic)."""
        self._run.mkdir(parents=True, exist_ok=True)
        install_libraries(self._run)
        self.devices: dict[str, ServedDevice] = {}
        """Those that are served."""
        self._door = Door()
        self._watch = Watch()
        self._cgroups = Cgroups(settings.cgroup_root)
        self._started = False
        self.note(self.find_faults())
        self._started = True
        self._door.start()

    def find_faults(self) -> dict[str, str]:
        """Why devices cannot be used now, by id. Takes some seconds at most; in one thread at a time, whichever."""
        return self._looks.find()

    def note(self, faults: Mapping[str, str]) -> None:
        """Takes note of what was found, and begins to serve the devices that only now can be.

        One that cannot be served has a fault, and is tried again with the next note. Offline work on a device with a
        fault stops when its lease has run out.
        """
        found = dict(faults)
        for name, (config, backend) in self._configured.items():
            if name not in found and name not in self.devices and (fault := self._serve(config, backend)) is not None:
                found[name] = fault
        for name, fault in found.items():
            if self.faults.get(name) != fault:
                log.error("a device cannot be used", device=name, reason=fault)
        for name in self.faults.keys() - found.keys():
            log.info("a device can be used again", device=name)
        self.faults = found

    def _serve(self, config: DeviceConfig, backend: Backend) -> str | None:
        """Why the device cannot be served, or None. Raises `BlockingIOError` when another agent runs as this starts."""
        try:
            self._open(config, backend)
        except (OSError, MemoryError) as error:
            if isinstance(error, BlockingIOError) and not self._started:
                raise
            return f"it cannot be served: {error}"
        return None

    def _open(self, config: DeviceConfig, backend: Backend) -> None:
        gate = backend.open(device_directory(self._run, config.id), backstop=self._backstop_seconds)
        guests = Guests(gate, self._cgroups)
        slots = range(config.harvest_slots)
        lending = None
        if gate.loans is not None:
            coming = partial(self._door.engines, gate), partial(self._door.withholding, gate)
            lending = Lending(config, gate.loans, *coming, self._cgroups.uid_of)
        doorways = [Doorway(self._socket(config, None), None)]
        doorways += [Doorway(self._socket(config, slot), slot, partial(guests.vet, slot)) for slot in slots]
        try:
            gate.start()
            self._door.open(gate, doorways)
        except OSError:
            gate.close()
            raise
        hardware = self._looks.hardware[config.id]
        self.devices[config.id] = ServedDevice(
            config, backend, hardware, gate, guests, lending=lending, used_slots=set(slots)
        )
        able = backend.capabilities
        log.info(
            "serving a device",
            device=config.id,
            backend=backend.name,
            stop=able.latency.value,
            backstop=able.backstop,
            memory_handles=able.memory_handles,
        )

    def _socket(self, config: DeviceConfig, slot: int | None) -> Path:
        return door_directory(self._run, config.id, slot) / SOCKET

    def close(self) -> None:
        """Stops serving; engines and tenants look for the next agent."""
        self._door.close()
        for device in self.devices.values():
            device.gate.close()

    def beats(self) -> dict[str, float]:
        """When each device's native thread last came round, and the one that lets processes in (monotonic)."""
        beats = {f"device {name}": device.gate.beat() for name, device in self.devices.items()}
        return beats | {"the door": self._door.beat()}

    def renew(self) -> None:
        """Renews the devices' leases as far as the last report allows."""
        now = time.monotonic()
        self.metrics.report_age(now - self.last_accepted if self.last_accepted is not None else float("inf"))
        until = lease_until(now, self.last_accepted)
        if until is None:
            return
        for name, device in self.devices.items():
            if name not in self.faults:
                device.gate.renew(until)

    def sample(self, window: float) -> None:
        """Reads every device and keeps its metrics. `window` in seconds."""
        for name, device in self.devices.items():
            first = not device.window.sampled
            counts, requests, closings = device.window.update(device.gate, window)
            most = max((request.preemptions for request in device.window.requests), default=0)
            self.metrics.device(name, counts, most)
            if not first:
                self.metrics.requests(device.placements.online, requests)
                self.metrics.closings(name, closings)
            self._lend(name, device, window)

    def _lend(self, name: str, device: ServedDevice, window: float) -> None:
        if device.lending is None:
            return
        pool, owned, sample = device.lending.look(time.monotonic())
        device.window.remember(sample, window)
        self.metrics.memory(name, owned, pool)

    def place(self, holders: Holders, pods: list[PodView]) -> None:
        """Takes note of who is where, and clears the slots of pods that are gone."""
        self.pods = pods
        for name, device in self.devices.items():
            device.placements = placements(name, holders, pods)
            if device.lending:
                device.lending.placements = device.placements
            held = {slot for slot, _ in device.placements.slots}
            for slot in device.used_slots - held:
                if device.gate.reset(slot):
                    device.guests.forget(slot)
                    device.used_slots.discard(slot)
            device.used_slots |= held
            self._learn(device)

    def _learn(self, device: ServedDevice) -> None:
        """Pods of which no process attaches are known by the kubelet's word alone."""
        for slot, pod in device.placements.slots:
            try:
                if pod.uid:
                    device.guests.learn(slot, pod.uid)
            except OSError as error:
                log.warning("a pod's cgroup cannot be used", pod=pod.name, error=str(error))

    def notices(self) -> list[Notice]:
        """What is to be done about pods that the kernel had to stop."""
        now = time.monotonic()
        found: list[Notice] = []
        present = set()
        for name, device in self.devices.items():
            counts = device.gate.counts()
            for slot in range(device.config.harvest_slots):
                pod = device.guests.pod(slot)
                if pod is None:
                    continue
                present.add(pod.uid)
                members = self._door.members(device.gate, slot)
                found += self._watch.look((name, slot), pod, counts.tenants[slot], members, now)
            found += self._keepers(device, [tenant.open_seconds for tenant in counts.tenants], now)
        self._watch.keep(present)
        return found

    def _keepers(self, device: ServedDevice, open_seconds: Sequence[float], now: float) -> list[Notice]:
        """Pods that do not give memory back, or do not hand it over."""
        if device.lending is None:
            return []
        due = {slot: withheld_memory() for slot in device.lending.withheld(open_seconds, now)}
        due |= {slot: kept_memory(kept) for slot, kept in device.lending.keepers(now).items()}
        pods = [(device.guests.pod(slot), decision) for slot, decision in due.items()]
        return [Notice(pod, decision) for pod, decision in pods if pod is not None]

    def shortages(self) -> list[tuple[PodView, str]]:
        """Engines' pods whose devices are too small for them, and that in words for their users."""
        found = [device.lending.shortage() for device in self.devices.values() if device.lending]
        return [shortage for shortage in found if shortage is not None]

    def snapshots(self) -> list[DeviceSnapshot]:
        """What a report is made from."""
        return [self._snapshot(device, device.gate.counts()) for device in self.devices.values()]

    def _snapshot(self, device: ServedDevice, counts: DeviceCounts) -> DeviceSnapshot:
        idle, harvested = device.window.fractions()
        return DeviceSnapshot(
            config=device.config,
            hardware=device.hardware,
            usable=device.config.id not in self.faults,
            counts=counts,
            idle_fraction=idle,
            harvested_fraction=harvested,
            requests=tuple(device.window.requests),
            closings=tuple(device.window.closings),
            placements=device.placements,
            pool=device.lending.owned if device.lending else None,
            memory=tuple(device.window.memory),
        )

    def online_ids(self) -> dict[str, bool]:
        """Ids of the online resource, and whether each can be used."""
        return {name: name not in self.faults for name in self._configured}

    def slot_ids(self) -> dict[str, bool]:
        """Ids of the harvest resource, and whether each can be used."""
        return {
            slot: name not in self.faults for name, (config, _) in self._configured.items() for slot in config.slot_ids
        }

    def _refuse_faulty(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.faults:
                raise AllocationRefused(f"device {name} cannot be used: {self.faults[name]}")

    def allocate_online(self, ids: Sequence[str]) -> Allocation:
        """For an engine's container. Raises `AllocationRefused`."""
        if len(ids) != 1 or ids[0] not in self._configured:
            raise AllocationRefused(f"an engine's container gets one device of this node, not {', '.join(ids)}")
        self._refuse_faulty(ids)
        return online_allocation(self._run, ids[0], self.devices[ids[0]].backend)

    def allocate_slots(self, ids: Sequence[str]) -> Allocation:
        """For an offline container: a slot of each of its devices. Raises `AllocationRefused`."""
        unknown = sorted(set(ids) - set(self.slot_ids()))
        if unknown or not ids:
            raise AllocationRefused(f"no slots of this node: {', '.join(unknown) or 'none asked for'}")
        slots = [device_and_slot(slot) for slot in sorted(ids)]
        if len({name for name, _ in slots}) < len(slots):
            raise AllocationRefused(f"an offline container gets one slot of each device, not {', '.join(sorted(ids))}")
        self._refuse_faulty(name for name, _ in slots)
        backends = [self.devices[name].backend for name, _ in slots]
        if len(kinds := sorted({backend.name for backend in backends})) > 1:
            raise AllocationRefused(f"an offline container gets devices of one backend, not of {' and '.join(kinds)}")
        for name, slot in slots:
            if not self.devices[name].gate.reset(slot):
                raise AllocationRefused(f"a process of the last pod is still on {name}-{slot}")
            self.devices[name].guests.forget(slot)
            self.devices[name].used_slots.add(slot)
        return harvest_allocation(self._run, slots, backends)

    def prefer_slots(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """Which slots the kubelet should hand out."""
        return preferred_slots(available, required, size, self.pods)


def unix_offset() -> float:
    """What makes a monotonic time a Unix time, in seconds."""
    return time.time() - time.monotonic()
