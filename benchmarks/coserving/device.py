"""A device that a benchmark serves as a node's agent does: with a gate, and with seats in its engine."""

from pathlib import Path

from rig.processes import with_plugin
from rig.served_device import ServedDevice

from rowen.crds.names import ENGINE_RIDE_SOCKET_ENV, RIDE_SOCKET_ENV
from rowen.crds.ride.messages import StepSums
from rowen.node_agent.devices.counts import DeviceCounts
from rowen.node_agent.ride.door import EngineDoorway, RideDoor, SeatDoorway

_BACKSTOP_SECONDS = 0.05
_DEVICE, _SEAT = "0", "seat"


class RidingDevice:
    """One seat and one slot; served until `close`."""

    def __init__(self, folder: Path, core: int, *, shares: bool) -> None:
        """`folder`: of shared memory. `shares`: the job behind the gate may be given a share beside requests."""
        self._served = ServedDevice(folder, slots=1, cpu=core, backstop=_BACKSTOP_SECONDS)
        self._plugin = with_plugin(folder)
        self._served.make_pods(with_share=shares, limited=shares)
        self._engine_socket, self._seat_socket = folder / "engine" / "ride", folder / "seat" / "ride"
        self._seat_socket.parent.mkdir()
        self._door = RideDoor()
        self._door.open(
            EngineDoorway(self._engine_socket, _DEVICE, lambda _: "engine"),
            [SeatDoorway(self._seat_socket, _SEAT, lambda _: ("rider", _DEVICE))],
        )
        self._door.start()

    def engine_environment(self) -> dict[str, str]:
        """What the device plugin would give an engine."""
        return self._served.engine_environment() | self._plugin | {ENGINE_RIDE_SOCKET_ENV: str(self._engine_socket)}

    def entering(self, tuner: str, command: list[str]) -> tuple[list[str], dict[str, str]]:
        """The command of a job, and what variables it gets: one that rides, or stands behind the gate in its cgroup."""
        if tuner == "rider":
            return command, {RIDE_SOCKET_ENV: str(self._seat_socket)}
        return self._served.entering(0, command) if tuner == "gated" else (command, {})

    def let_share(self, shares: bool) -> None:
        """Whether the job behind the gate is given what the engine leaves beside its requests."""
        self._served.let_share(0, shares)

    @property
    def counts(self) -> DeviceCounts:
        """Of the device, now."""
        return self._served.device.counts()

    def renew(self, until: float) -> None:
        """Until when the gate may open; seconds, monotonic."""
        self._served.device.renew(until)

    def ended(self) -> str | None:
        """Why nothing rides in the engine any more."""
        view = self._door.engine(_DEVICE)
        return view.ended if view is not None else "the engine takes no riders in"

    @property
    def sums(self) -> StepSums | None:
        """What the engine's steps were made of so far, as it has told; None: it takes no riders in."""
        view = self._door.engine(_DEVICE)
        return view.sums if view is not None else None

    def close(self) -> None:
        """Stops serving, once servers and jobs have ended."""
        self._door.close()
        self._served.close()
