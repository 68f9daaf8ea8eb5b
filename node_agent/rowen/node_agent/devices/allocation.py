"""What a container gets with a device: the library, the way to the agent, and where it finds them."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.crds.names import (
    CONTAINER_DIRECTORY,
    ENGINE_RIDE_SOCKET_ENV,
    ENGINE_SOCKET_ENV,
    LIBRARY_ENV,
    LIBRARY_FILE,
    PLUGIN_DIRECTORY,
    PRELOAD_ENV,
    PYTHON_PATH_ENV,
    RIDE_SOCKET_ENV,
    TENANT_SOCKETS_ENV,
)
from rowen.node_agent.devices.backend import Backend
from rowen.node_agent.devices.plugin_files import PLUGIN
from rowen.node_agent.native import LIBRARIES, library_path

ENGINE_LIBRARY = "librowen"
SOCKET = "agent.sock"
RIDE_SOCKET = "ride.sock"


@dataclass(frozen=True)
class Mount:
    """A file or folder of the node in a container, read-only."""

    host_path: str
    container_path: str


@dataclass(frozen=True)
class Allocation:
    """Environment and mounts of one container."""

    environment: dict[str, str]
    mounts: tuple[Mount, ...]


def library_file(run_directory: Path, name: str) -> Path:
    """Where the node keeps a library, by the name under which it is built."""
    return run_directory / "lib" / f"{name}.so"


def install_libraries(run_directory: Path) -> None:
    """Puts the libraries where containers find them; running ones keep the files that they have. Raises `OSError`."""
    run_directory.chmod(0o700)
    for name in LIBRARIES:
        target = library_file(run_directory, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".new")
        shutil.copyfile(library_path(name), temporary)
        temporary.chmod(0o755)
        temporary.replace(target)


def device_directory(run_directory: Path, device: str) -> Path:
    """Where the node keeps what it knows of a device."""
    return run_directory / "devices" / device


def door_directory(run_directory: Path, device: str, slot: int | None) -> Path:
    """The folder of the socket through which a slot's pod attaches, or the engine (None).

    Containers get the folder: a socket that is made anew is seen in it.
    """
    return device_directory(run_directory, device) / ("engine" if slot is None else f"tenant-{slot}")


def seat_directory(run_directory: Path, device: str, seat: int) -> Path:
    """The folder of the socket through which a seat's job comes in."""
    return device_directory(run_directory, device) / f"seat-{seat}"


def _doors(run_directory: Path, name: str, slots: Sequence[tuple[str, int | None]]) -> tuple[Mount, ...]:
    return tuple(
        Mount(str(door_directory(run_directory, device, slot)), f"{CONTAINER_DIRECTORY}/{name}-{index}")
        for index, (device, slot) in enumerate(slots)
    )


def _sockets(doors: Sequence[Mount]) -> str:
    return ":".join(f"{door.container_path}/{SOCKET}" for door in doors)


def _library(run_directory: Path, name: str) -> Mount:
    return Mount(str(library_file(run_directory, name)), LIBRARY_FILE)


def online_allocation(run_directory: Path, devices: Sequence[str], backends: Sequence[Backend]) -> Allocation:
    """For an engine on these devices: it may close their gates. `backends`: the devices', all of one kind.

    Engines load the same library and plugin with every backend. Its image need not contain anything of Rowen's. One
    that is on a single device may take riders in.
    """
    doors = _doors(run_directory, "engine", [(device, None) for device in devices])
    plugin = Mount(str(run_directory / PLUGIN), PLUGIN_DIRECTORY)
    ride = {ENGINE_RIDE_SOCKET_ENV: f"{doors[0].container_path}/{RIDE_SOCKET}"} if len(doors) == 1 else {}
    return Allocation(
        environment={
            LIBRARY_ENV: LIBRARY_FILE,
            ENGINE_SOCKET_ENV: _sockets(doors),
            PYTHON_PATH_ENV: PLUGIN_DIRECTORY,
            **ride,
            **_joined([backend.environment() for backend in backends]),
        },
        mounts=(_library(run_directory, ENGINE_LIBRARY), *doors, plugin),
    )


def harvest_allocation(
    run_directory: Path, slots: Sequence[tuple[str, int]], backends: Sequence[Backend]
) -> Allocation:
    """For offline work on these slots of different devices, in lockstep. `backends`: the devices', all of one kind.

    Every process of the container loads the library, and none can write a gate.
    """
    doors = _doors(run_directory, "tenant", slots)
    return Allocation(
        environment={
            LIBRARY_ENV: LIBRARY_FILE,
            TENANT_SOCKETS_ENV: _sockets(doors),
            PRELOAD_ENV: LIBRARY_FILE,
            **_joined([backend.environment() for backend in backends]),
        },
        mounts=(_library(run_directory, backends[0].tenant_library), *doors),
    )


def ride_allocation(run_directory: Path, device: str, seat: int) -> Allocation:
    """For a job in a seat of a device: the way to its engine, in which it is computed, and nothing else."""
    door = Mount(str(seat_directory(run_directory, device, seat)), f"{CONTAINER_DIRECTORY}/ride")
    return Allocation({RIDE_SOCKET_ENV: f"{door.container_path}/{RIDE_SOCKET}"}, (door,))


def _joined(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for environment in environments for name in environment)
    return {name: ",".join(found[name] for found in environments if name in found) for name in names}
