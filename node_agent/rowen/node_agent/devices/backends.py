"""Which backend shares a device."""

from rowen.node_agent.config import CpuDeviceConfig, DeviceConfig
from rowen.node_agent.devices.backend import Backend
from rowen.node_agent.devices.cpu import CpuBackend
from rowen.node_agent.devices.nvidia import NvidiaBackend


def backend_of(config: DeviceConfig) -> Backend:
    """The one that the configuration names."""
    return CpuBackend(config) if isinstance(config, CpuDeviceConfig) else NvidiaBackend(config)
