"""What a container gets with a device: the library, the pages, and where it finds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.crds.names import (
    CONTAINER_DIRECTORY,
    DEVICE_PAGE_ENV,
    LIBRARY_ENV,
    LIBRARY_FILE,
    PRELOAD_ENV,
    TENANT_PAGE_ENV,
)


@dataclass(frozen=True)
class Mount:
    """A file of the node in a container."""

    host_path: str
    container_path: str
    read_only: bool


@dataclass(frozen=True)
class Allocation:
    """Environment and mounts of one container."""

    environment: dict[str, str]
    mounts: tuple[Mount, ...]


def library_file(run_directory: Path) -> Path:
    """Where the node keeps the library."""
    return run_directory / "lib" / "librowen.so"


def device_directory(run_directory: Path, device: str) -> Path:
    """Where the node keeps a device's pages."""
    return run_directory / "devices" / device


def _mount(host: Path, name: str, *, read_only: bool) -> Mount:
    return Mount(str(host), f"{CONTAINER_DIRECTORY}/{name}", read_only)


def online_allocation(run_directory: Path, device: str) -> Allocation:
    """For an engine: it may close the gate."""
    return Allocation(
        environment={
            LIBRARY_ENV: LIBRARY_FILE,
            DEVICE_PAGE_ENV: f"{CONTAINER_DIRECTORY}/device.page",
        },
        mounts=(
            _mount(library_file(run_directory), "librowen.so", read_only=True),
            _mount(device_directory(run_directory, device) / "device.page", "device.page", read_only=False),
        ),
    )


def harvest_allocation(run_directory: Path, slots: Sequence[tuple[str, int]]) -> Allocation:
    """For offline work on these slots of different devices, in lockstep.

    Every process of the container loads the library, and none can write a gate.
    """
    device_pages, tenant_pages = [], []
    for index, (device, slot) in enumerate(slots):
        pages = device_directory(run_directory, device)
        device_pages.append(_mount(pages / "device.page", f"device-{index}.page", read_only=True))
        tenant_pages.append(_mount(pages / f"tenant-{slot}.page", f"tenant-{index}.page", read_only=False))
    return Allocation(
        environment={
            LIBRARY_ENV: LIBRARY_FILE,
            DEVICE_PAGE_ENV: ":".join(mount.container_path for mount in device_pages),
            TENANT_PAGE_ENV: ":".join(mount.container_path for mount in tenant_pages),
            PRELOAD_ENV: LIBRARY_FILE,
        },
        mounts=(
            _mount(library_file(run_directory), "librowen.so", read_only=True),
            *device_pages,
            *tenant_pages,
        ),
    )
