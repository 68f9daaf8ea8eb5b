"""What the agent is told: its node, and which devices the node shares."""

import mmap
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, SettingsConfigDict

from rowen.crds.base import Quantity, quantity_bytes
from rowen.crds.ride.messages import MOST_SEATS
from rowen.node_agent.devices.library import CPU_WORDS, TENANT_SLOTS
from rowen.node_agent.memory.pool import MOST_HANDLES


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list as in `0-3,8`. Raises `ValueError`."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"cpus: {text!r} is no list of CPUs: expected e.g. 0-3,8")
        cpus.update(range(int(first), int(last or first) + 1))
    if not cpus or max(cpus) >= CPU_WORDS * 64:
        raise ValueError(f"cpus: {text!r} names no CPU, or one above {CPU_WORDS * 64 - 1}")
    return tuple(sorted(cpus))


class _SharedDevice(BaseModel):
    """What the configuration says of a device, whatever its backend."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    node: str = "*"
    """Glob over the names of the nodes that have it."""
    id: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9]*[a-z0-9])?$", max_length=56)]
    """Name, unique on its node."""
    memory: Quantity
    """Memory that its tenants share."""
    harvest_slots: Annotated[int, Field(ge=1, le=TENANT_SLOTS)] = 2
    """Most offline pods at once; they share its open time equally."""

    @property
    def memory_bytes(self) -> int:
        """All its memory, in bytes."""
        return quantity_bytes(self.memory)

    @property
    def slot_ids(self) -> list[str]:
        """Device ids of the harvest resource, one per slot."""
        return [f"{self.id}-{slot}" for slot in range(self.harvest_slots)]

    @property
    def seat_ids(self) -> list[str]:
        """Device ids of the ride resource, one per job that its engine may take in."""
        return [f"{self.id}-{seat}" for seat in range(MOST_SEATS)]


class CpuDeviceConfig(_SharedDevice):
    """CPUs and a pool of memory."""

    backend: Literal["cpu"] = "cpu"
    cpus: str
    """CPUs, as in `0-3,8`."""
    handle: Quantity = "2Mi"
    """Unit in which memory changes its owner: a power of two, at least a page. Less suits small models."""

    @model_validator(mode="after")
    def _has_cpus(self) -> Self:
        parse_cpus(self.cpus)
        return self

    @model_validator(mode="after")
    def _has_handles(self) -> Self:
        if self.handle_bytes & (self.handle_bytes - 1) or self.handle_bytes < mmap.PAGESIZE:
            raise ValueError(
                f"handle: {self.handle} is no power of two that is at least a page ({mmap.PAGESIZE} bytes): "
                "expected e.g. 2Mi"
            )
        if self.handles < 1:
            raise ValueError(f"memory: device {self.id} has {self.memory}, less than one handle of {self.handle}")
        if self.handles > MOST_HANDLES:
            raise ValueError(
                f"handle: {self.memory} are {self.handles} handles of {self.handle}, more than {MOST_HANDLES}: "
                "choose larger ones"
            )
        return self

    @property
    def cpu_numbers(self) -> tuple[int, ...]:
        """The CPUs, by number."""
        return parse_cpus(self.cpus)

    @property
    def handle_bytes(self) -> int:
        """A handle, in bytes."""
        return quantity_bytes(self.handle)

    @property
    def handles(self) -> int:
        """Handles that its memory consists of; a rest is nobody's."""
        return self.memory_bytes // self.handle_bytes

    @property
    def parts(self) -> tuple[str, ...]:
        """What of its node belongs to it alone, in words."""
        return tuple(f"CPU {cpu}" for cpu in self.cpu_numbers)


class NvidiaDeviceConfig(_SharedDevice):
    """A GPU. Its memory does not change its owner."""

    backend: Literal["nvidia"]
    gpu: Annotated[str, Field(pattern=r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    """The GPU's UUID, as `nvidia-smi -L` prints it."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What of its node belongs to it alone, in words."""
        return (self.gpu,)


def _backend_of(device: Any) -> Any:
    return device.get("backend", "cpu") if isinstance(device, Mapping) else getattr(device, "backend", None)


DeviceConfig = Annotated[
    Annotated[CpuDeviceConfig, Tag("cpu")] | Annotated[NvidiaDeviceConfig, Tag("nvidia")],
    Discriminator(
        _backend_of, custom_error_type="backend", custom_error_message="backend: a device is one of cpu, nvidia"
    ),
]
"""A device that is shared, by its `backend`: `cpu` where it does not say."""
_DEVICES: TypeAdapter[list[DeviceConfig]] = TypeAdapter(list[DeviceConfig])


def node_devices(document: Mapping[str, Any] | None, node: str) -> list[DeviceConfig]:
    """The devices of one node, from the configuration's document.

    Raises `ValueError` (of which `pydantic.ValidationError` is one) when a device is wrong, a name comes twice on
    the node, or two of its devices share a CPU or a GPU.
    """
    listed = _DEVICES.validate_python((document or {}).get("devices") or [])
    mine = [device for device in listed if fnmatchcase(node, device.node)]
    owners: dict[str, str] = {}
    for device in mine:
        for part in device.parts:
            if part in owners:
                raise ValueError(f"{part} of node {node} belongs to both {owners[part]} and {device.id}")
            owners[part] = device.id
    for device in mine:
        if sum(other.id == device.id for other in mine) > 1:
            raise ValueError(f"id: node {node} has two devices {device.id}")
    return mine


class Settings(BaseSettings):
    """Where the agent runs: each field by `ROWEN_` and its name in the environment."""

    model_config = SettingsConfigDict(env_prefix="ROWEN_", frozen=True, extra="forbid")

    node: Annotated[str, Field(min_length=1)]
    """Name of the node."""
    devices: Path = Path("/etc/rowen/devices.yaml")
    """File that lists the devices."""
    run_directory: Path = Path("/run/rowen")
    """Library, sockets and state, at the same path on the node."""
    device_plugins: Path = Path("/var/lib/kubelet/device-plugins")
    """The kubelet's folder of device plugin sockets."""
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    """The kubelet's pod resources socket."""
    cgroup_root: Path = Path("/sys/fs/cgroup")
    """The node's cgroups."""
    port: Annotated[int, Field(ge=1, le=65535)] = 9090
    """HTTP port."""
    backstop_seconds: Annotated[float, Field(ge=0.001, le=10)] = 0.05
    """A tenant that has not stopped by itself for so long is stopped from outside."""


def read_devices(settings: Settings) -> list[DeviceConfig]:
    """The node's devices from the file. Raises `OSError`, `yaml.YAMLError`, `ValueError`."""
    return node_devices(yaml.safe_load(settings.devices.read_text()), settings.node)
