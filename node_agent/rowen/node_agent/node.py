"""The node's devices and what is known of them: the state that the agent's loops share."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from rowen.crds.service.online_service import MOST_DEVICES
from rowen.node_agent.attach.cgroup import Cgroups
from rowen.node_agent.attach.door import Door
from rowen.node_agent.attach.entrance import Doorway
from rowen.node_agent.attach.guests import Guests
from rowen.node_agent.attach.watch import Notice, Watch
from rowen.node_agent.config import DeviceConfig, Settings
from rowen.node_agent.devices.allocation import (
    SOCKET,
    Allocation,
    device_directory,
    door_directory,
    harvest_allocation,
    install_libraries,
    online_allocation,
)
from rowen.node_agent.devices.backend import Backend
from rowen.node_agent.devices.backends import backend_of
from rowen.node_agent.devices.faults import Faults
from rowen.node_agent.devices.lending import Lending
from rowen.node_agent.devices.plugin_files import install_plugin
from rowen.node_agent.devices.served import ServedDevice
from rowen.node_agent.kubelet.plugin import AllocationRefused
from rowen.node_agent.kubelet.pods import (
    Holders,
    PodView,
    device_and_slot,
    placements,
    preferred_devices,
    telling_devices,
)
from rowen.node_agent.lease import lease_until
from rowen.node_agent.report.metrics import Metrics
from rowen.node_agent.report.status import DeviceSnapshot
from rowen.node_agent.ride.rides import Rides

log = structlog.get_logger()


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
        self.last_accepted: float | None = None
        """When the last heartbeat or report that the API server accepted was sent (monotonic)."""
        self._run.mkdir(parents=True, exist_ok=True)
        install_libraries(self._run)
        install_plugin(self._run)
        self.devices: dict[str, ServedDevice] = {}
        """Those that are served."""
        self._door = Door()
        self._watch = Watch()
        self._cgroups = Cgroups(settings.cgroup_root)
        self.rides = Rides(self._run, configs, self._cgroups, self._online, lambda: self.faults)
        """What is computed inside engines."""
        self._started = False
        self.note(self.find_faults())
        self._started = True
        self._door.start()
        self.rides.start()

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
        hardware = self._looks.hardware[config.id]
        device = ServedDevice(config, backend, hardware, gate, guests, used_slots=set(slots))
        if gate.loans is not None:
            engines, withholding = partial(self._door.engines, gate), partial(self._door.withholding, gate)
            device.lending = Lending(
                config, gate.loans, lambda: device.placements, engines, withholding, self._cgroups.uid_of
            )
        doorways = [Doorway(self._socket(config, None), None)]
        doorways += [Doorway(self._socket(config, slot), slot, partial(guests.vet, slot)) for slot in slots]
        try:
            gate.start()
            self.rides.open(config)
            self._door.open(gate, doorways)
        except OSError:
            gate.close()
            raise
        self.devices[config.id] = device
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
        self.rides.close()
        for device in self.devices.values():
            device.gate.close()

    def beats(self) -> dict[str, float]:
        """When each device's native thread last came round, and the one that lets processes in (monotonic)."""
        beats = {f"device {name}": device.gate.beat() for name, device in self.devices.items()}
        return beats | {"the door": self._door.beat(), "the ride door": self.rides.beat()}

    def renew(self) -> None:
        """Renews the devices' leases as far as the last heartbeat allows."""
        now = time.monotonic()
        self.metrics.heartbeat_age(now - self.last_accepted if self.last_accepted is not None else float("inf"))
        until = lease_until(now, self.last_accepted)
        if until is None:
            return
        for name, device in self.devices.items():
            if name not in self.faults:
                device.gate.renew(until)

    def sample(self, window: float) -> None:
        """Reads every device and keeps its metrics. `window` in seconds."""
        attached_first = sorted(self.devices.items(), key=lambda item: item[1].gate.counts().online_processes == 0)
        telling = telling_devices({name: device.placements.online for name, device in attached_first})
        for name, device in self.devices.items():
            first = not device.window.sampled
            counts, requests, closings = device.window.update(device.gate, window)
            device.latencies.add(requests, counts.now, device.placements.online)
            most = max((request.preemptions for request in device.window.requests), default=0)
            self.metrics.device(name, counts, most)
            if not first:
                self.metrics.requests(device.placements.online, requests if name in telling else ())
                self.metrics.closings(name, closings)
            self._lend(name, device, window)
            engine = self.rides.engine(name)
            self.metrics.steps(name, device.count_steps(counts, engine, window))
            joined = self.rides.joined(name)
            device.gate.set_riders(joined)
            self.metrics.riding(name, engine, joined)

    def _lend(self, name: str, device: ServedDevice, window: float) -> None:
        if device.lending is None:
            return
        pool, owned, sample = device.lending.look(time.monotonic())
        device.window.remember(sample, window)
        self.metrics.memory(name, owned, pool, device.lending.tokens_lost())

    def _online(self, device: str) -> PodView | None:
        found = self.devices.get(device)
        return found.placements.online if found else None

    def place(self, holders: Holders, pods: list[PodView]) -> None:
        """Takes note of who is where, and clears the slots of pods that are gone."""
        for name, device in self.devices.items():
            device.place(placements(name, holders, pods))

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
            found += device.keepers([tenant.open_seconds for tenant in counts.tenants], now)
        self._watch.keep(present)
        return found

    def shortages(self) -> list[tuple[PodView, str]]:
        """Engines' pods whose devices are too small for them, and that in words for their users."""
        found = [device.lending.shortage() for device in self.devices.values() if device.lending]
        return [shortage for shortage in found if shortage is not None]

    def snapshots(self) -> list[DeviceSnapshot]:
        """What a report is made from."""
        return [
            device.snapshot(
                self.rides.engine(name), self.rides.counts(device.placements), usable=name not in self.faults
            )
            for name, device in self.devices.items()
        ]

    def online_ids(self) -> dict[str, bool]:
        """Ids of the online resource, and whether each can be used."""
        return {name: name not in self.faults for name in self._configured}

    def slot_ids(self) -> dict[str, bool]:
        """Ids of the harvest resource, and whether each can be used."""
        return {
            slot: name not in self.faults for name, (config, _) in self._configured.items() for slot in config.slot_ids
        }

    def _backends(self, names: Sequence[str], whose: str) -> list[Backend]:
        """Of devices for one container; all of one kind. Raises `AllocationRefused`."""
        for name in names:
            if name in self.faults:
                raise AllocationRefused(f"device {name} cannot be used: {self.faults[name]}")
        backends = [self.devices[name].backend for name in names]
        if len(kinds := sorted({backend.name for backend in backends})) > 1:
            raise AllocationRefused(f"{whose} gets devices of one backend, not of {' and '.join(kinds)}")
        return backends

    def prefer_online(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """Which devices an engine's container is to get: alike as far as there are enough."""
        return preferred_devices(available, required, size, self._looks.hardware)

    def allocate_online(self, ids: Sequence[str]) -> Allocation:
        """For an engine's container: its devices. Raises `AllocationRefused`."""
        if unknown := sorted(set(ids) - set(self._configured)):
            raise AllocationRefused(f"no devices of this node: {', '.join(unknown)}")
        if not 1 <= len(ids) <= MOST_DEVICES:
            raise AllocationRefused(f"an engine's container gets 1 to {MOST_DEVICES} devices, not {len(ids)}")
        devices = sorted(ids)
        return online_allocation(self._run, devices, self._backends(devices, "an engine's container"))

    def allocate_slots(self, ids: Sequence[str]) -> Allocation:
        """For an offline container: a slot of each of its devices. Raises `AllocationRefused`."""
        unknown = sorted(set(ids) - set(self.slot_ids()))
        if unknown or not ids:
            raise AllocationRefused(f"no slots of this node: {', '.join(unknown) or 'none asked for'}")
        slots = [device_and_slot(slot) for slot in sorted(ids)]
        if len({name for name, _ in slots}) < len(slots):
            raise AllocationRefused(f"an offline container gets one slot of each device, not {', '.join(sorted(ids))}")
        backends = self._backends([name for name, _ in slots], "an offline container")
        for name, slot in slots:
            if not self.devices[name].clear(slot):
                raise AllocationRefused(f"a process of the last pod is still on {name}-{slot}")
            self.devices[name].used_slots.add(slot)
        return harvest_allocation(self._run, slots, backends)


def unix_offset() -> float:
    """What makes a monotonic time a Unix time, in seconds."""
    return time.time() - time.monotonic()
