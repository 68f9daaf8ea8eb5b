"""Riding on a node: who may come in at which ride socket, and in whose engine a job rides."""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from pathlib import Path

from rowen.node_agent.attach.cgroup import Cgroups
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.devices.allocation import (
    RIDE_SOCKET,
    Allocation,
    door_directory,
    ride_allocation,
    seat_directory,
)
from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.kubelet.plugin import AllocationRefused
from rowen.node_agent.kubelet.pods import Placements, PodView, device_and_slot, ridden_device
from rowen.node_agent.ride.door import EngineDoorway, RideDoor, SeatDoorway
from rowen.node_agent.ride.view import EngineView


class Rides:
    """Of all devices. Its door is served from `start` until `close`."""

    def __init__(
        self,
        run_directory: Path,
        configs: Sequence[DeviceConfig],
        cgroups: Cgroups,
        online: Callable[[str], PodView | None],
        faults: Callable[[], Container[str]],
    ) -> None:
        """`configs`: of the node's devices. `online`: the engine's pod on one; `faults`: those that have a fault."""
        self.known_pods: Callable[[], Iterable[PodView]] | None = None
        """The node's pods, as last heard of by the API server, and none before that; asked by the door's thread.

        None: there is no API server to ask.
        """
        self._run = run_directory
        self._configs = configs
        self._cgroups = cgroups
        self._online = online
        self._faults = faults
        self._door = RideDoor(self._has_gone)
        self._opened: set[str] = set()

    def start(self) -> None:
        """Begins to let processes in."""
        self._door.start()

    def close(self) -> None:
        """Closes the sockets; who rides rides on, and looks for the next agent."""
        self._door.close()

    def beat(self) -> float:
        """When the door's thread last came round (seconds, monotonic clock)."""
        return self._door.beat()

    def open(self, config: DeviceConfig) -> None:
        """Listens for a device's engine and riders; again does nothing. Raises `OSError`."""
        if config.id in self._opened:
            return
        folder = door_directory(self._run, config.id, None)
        engine = EngineDoorway(folder / RIDE_SOCKET, config.id, partial(self._vet_engine, config.id))
        seats = []
        for seat_id in config.seat_ids:
            path = seat_directory(self._run, *device_and_slot(seat_id)) / RIDE_SOCKET
            seats.append(SeatDoorway(path, seat_id, partial(self._vet_rider, seat_id)))
        self._door.open(engine, seats)
        self._opened.add(config.id)

    def seat_ids(self) -> dict[str, bool]:
        """Ids of the ride resource, and whether each can be used."""
        return {seat: config.id not in self._faults() for config in self._configs for seat in config.seat_ids}

    def allocate(self, ids: Sequence[str]) -> Allocation:
        """For a container that rides: its one seat. Raises `AllocationRefused`."""
        if len(ids) != 1:
            raise AllocationRefused(f"a container that rides gets one seat, not {len(ids)}")
        usable = self.seat_ids().get(ids[0])
        if usable is None:
            raise AllocationRefused(f"no seat of this node: {ids[0]}")
        device, seat = device_and_slot(ids[0])
        if not usable or device not in self._opened:
            raise AllocationRefused(f"device {device} cannot be used")
        return ride_allocation(self._run, device, seat)

    def engine(self, device: str) -> EngineView | None:
        """The device's engine; None: there is none that takes riders in."""
        return self._door.engine(device)

    def joined(self, device: str) -> int:
        """How many jobs are joined with the device's engine."""
        return self._door.joined(device)

    def counts(self, placements: Placements) -> tuple[tuple[PodView, TenantCounts], ...]:
        """What the pods that ride on a device have done."""
        return tuple((pod, self._door.counts(seat, pod.uid)) for seat, pod in placements.riders)

    def _has_gone(self, uid: str) -> bool:
        pods = list(self.known_pods()) if self.known_pods is not None else []
        # Where there is none at all, nothing was heard yet.
        return bool(pods) and all(pod.uid != uid or pod.ended for pod in pods)

    def _vet_engine(self, device: str, pid: int) -> str:
        uid, pod = self._cgroups.uid_of(pid) or "", self._online(device)
        if pod is not None and pod.uid and pod.uid != uid:
            theirs = f"{pod.namespace}/{pod.name}"
            raise AttachRefused(f"device {device} is known as another pod's, and not this process's", pod=theirs)
        return uid

    def _vet_rider(self, seat: str, pid: int) -> tuple[str, str]:
        uid = self._cgroups.uid_of(pid)
        if uid is None:
            raise AttachRefused("the process is in no pod's cgroup")
        if self.known_pods is None:
            return uid, device_and_slot(seat)[0]
        pod = next((pod for pod in self.known_pods() if pod.uid == uid), None)
        if pod is None:
            raise AttachRefused("the process's pod is not known yet")
        device = ridden_device(seat, pod)
        self._vet_engine_for(pod, device)
        return uid, device

    def _vet_engine_for(self, pod: PodView, device: str) -> None:
        """An engine sees what rides in it, and who rides learns of its model. Raises `AttachRefused`."""
        online = self._online(device)
        if online is None:
            raise AttachRefused(f"the engine of device {device} is not known yet")
        if online.namespace != pod.namespace:
            reason = f"the engine of device {device} is not of the job's namespace"
            raise AttachRefused(reason, pod=f"{pod.namespace}/{pod.name}", engine=f"{online.namespace}/{online.name}")
        # Of a pod that was deleted by force the device is another's already, while its engine may still be ending.
        there = self._door.engine(device)
        if there is not None and online.uid and there.pod != online.uid:
            raise AttachRefused(f"the engine of device {device} is one of another pod")
