"""What a container gets with a device: the library, the way to the agent, and where it finds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.crds.names import (
    CONTAINER_DIRECTORY,
    ENGINE_SOCKET_ENV,
    LIBRARY_ENV,
    LIBRARY_FILE,
    PRELOAD_ENV,
    TENANT_SOCKETS_ENV,
)

SOCKET = "agent.sock"


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


def library_file(run_directory: Path) -> Path:
    """Where the node keeps the library."""
    return run_directory / "lib" / "librowen.so"


def device_directory(run_directory: Path, device: str) -> Path:
    """Where the node keeps what it knows of a device."""
    return run_directory / "devices" / device


def door_directory(run_directory: Path, device: str, slot: int | None) -> Path:
    """The folder of the socket through which a slot's pod attaches, or the engine (None).

    Containers get the folder: a socket that is made anew is seen in it.
    """
    return device_directory(run_directory, device) / ("engine" if slot is None else f"tenant-{slot}")


def _library(run_directory: Path) -> Mount:
    return Mount(str(library_file(run_directory)), LIBRARY_FILE)


def online_allocation(run_directory: Path, device: str) -> Allocation:
    """For an engine: it may close the gate."""
    door = Mount(str(door_directory(run_directory, device, None)), f"{CONTAINER_DIRECTORY}/engine")
    return Allocation(
        environment={LIBRARY_ENV: LIBRARY_FILE, ENGINE_SOCKET_ENV: f"{door.container_path}/{SOCKET}"},
        mounts=(_library(run_directory), door),
    )


def harvest_allocation(run_directory: Path, slots: Sequence[tuple[str, int]]) -> Allocation:
    """For offline work on these slots of different devices, in lockstep.

    Every process of the container loads the library, and none can write a gate.
    """
    doors = tuple(
        Mount(str(door_directory(run_directory, device, slot)), f"{CONTAINER_DIRECTORY}/tenant-{index}")
        for index, (device, slot) in enumerate(slots)
    )
    return Allocation(
        environment={
            LIBRARY_ENV: LIBRARY_FILE,
            TENANT_SOCKETS_ENV: ":".join(f"{door.container_path}/{SOCKET}" for door in doors),
            PRELOAD_ENV: LIBRARY_FILE,
        },
        mounts=(_library(run_directory), *doors),
    )
