"""The cpu backend: a device is some CPUs and a pool of memory; stopping means parking threads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rowen.node_agent.config import CpuDeviceConfig
from rowen.node_agent.devices.backend import Capabilities, Gate, LatencyClass
from rowen.node_agent.devices.device import Device
from rowen.node_agent.memory.pool import Pool

ONLINE_CPUS = Path("/sys/devices/system/cpu/online")


class CpuBackend:
    """Real processes are stopped on real CPUs."""

    name: Literal["cpu", "nvidia"] = "cpu"
    capabilities = Capabilities(latency=LatencyClass.SUB_MILLISECOND, backstop=True, memory_handles=True)
    tenant_library = "librowen"

    def __init__(self, config: CpuDeviceConfig, online_cpus: Path = ONLINE_CPUS) -> None:
        """`online_cpus`: the kernel's file that lists the node's CPUs."""
        self._config = config
        self._online_cpus = online_cpus

    def fault(self) -> str | None:
        """Whether all its CPUs are there: without one of them tenants would run elsewhere."""
        try:
            online = self._online_cpus.read_text().strip()
        except OSError as error:
            return f"the node's CPUs are not known: {error}"
        bounds = [part.partition("-") for part in online.split(",")]
        ranges = [range(int(first), int(last or first) + 1) for first, _, last in bounds]
        missing = [cpu for cpu in self._config.cpu_numbers if not any(cpu in found for found in ranges)]
        return f"cpus: the node has {online}, and not {', '.join(map(str, missing))}" if missing else None

    def hardware(self) -> str:
        """Every CPU is alike."""
        return "cpu"

    def environment(self) -> Mapping[str, str]:
        """None: the library keeps tenants on the CPUs."""
        return {}

    def open(self, directory: Path, *, backstop: float) -> Gate:
        """Serves the device. Raises `OSError`; `BlockingIOError`: another agent does."""
        return Device(
            directory,
            slots=self._config.harvest_slots,
            cpus=self._config.cpu_numbers,
            backstop=backstop,
            pool=Pool(self._config.handles, self._config.handle_bytes),
        )
