"""The cpu backend: a device is some CPUs and a pool of memory; stopping means parking threads."""

from pathlib import Path
from typing import Literal

from rowen.node_agent.backend import Capabilities, Gate, LatencyClass
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.device import Device
from rowen.node_agent.memory.pool import Pool


class CpuBackend:
    """Real processes are stopped on real CPUs."""

    name: Literal["cpu", "nvidia"] = "cpu"
    capabilities = Capabilities(latency=LatencyClass.SUB_MILLISECOND, backstop=True, memory_handles=True)

    def open(self, directory: Path, config: DeviceConfig, *, backstop: float) -> Gate:
        """Serves the device. Raises `OSError`; `BlockingIOError`: another agent does."""
        return Device(
            directory,
            slots=config.harvest_slots,
            cpus=config.cpu_numbers,
            backstop=backstop,
            pool=Pool(config.handles, config.handle_bytes),
        )
