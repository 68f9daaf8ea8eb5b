"""The nvidia backend: a device is a GPU; stopping means taking a tenant's channels off it (docs/gpu.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rowen.node_agent.config import NvidiaDeviceConfig
from rowen.node_agent.devices.backend import Capabilities, Gate, LatencyClass
from rowen.node_agent.devices.device import Device

DRIVER = Path("/proc/driver/nvidia")
"""The driver's own files; other than its device nodes they are seen in every container of the node."""
_UUID = "GPU UUID"
_EXCLUDED = "GPU Excluded"
_MODEL = "Model"
_LONGEST_MODEL = 63
_NOT_STARTED = "?"
"""In the UUID of a GPU that the driver has not started."""


class NvidiaBackend:
    """Tenants stop their own channels. It has never run on a GPU."""

    name: Literal["cpu", "nvidia"] = "nvidia"
    # A frozen process's threads stand still; what it has given to the GPU runs on.
    capabilities = Capabilities(latency=LatencyClass.UNKNOWN, backstop=False, memory_handles=False)
    tenant_library = "librowen_nvidia"

    def __init__(self, config: NvidiaDeviceConfig, driver: Path = DRIVER) -> None:
        """`driver`: the folder of the driver's files."""
        self._config = config
        self._driver = driver

    def fault(self) -> str | None:
        """Whether the driver is there, and has the GPU."""
        if not (self._driver / "version").exists():
            return f"no NVIDIA driver here: {self._driver / 'version'} is missing"
        gpus = self._gpus()
        if self._config.gpu in gpus:
            excluded = gpus[self._config.gpu].get(_EXCLUDED) == "Yes"
            return f"gpu: the driver leaves {self._config.gpu} out" if excluded else None
        fault = f"gpu: the driver has no {self._config.gpu} here, but {', '.join(gpus) or 'none'}"
        if any(_NOT_STARTED in uuid for uuid in gpus):
            fault += "; those with ? it has not started, as nvidia-persistenced does"
        return fault

    def hardware(self) -> str:
        """The GPU's model, as its driver calls it."""
        return self._gpus().get(self._config.gpu, {}).get(_MODEL, self.name)[:_LONGEST_MODEL]

    def environment(self) -> Mapping[str, str]:
        """What NVIDIA's container runtime goes by: it brings device nodes and the driver's libraries."""
        return {"NVIDIA_VISIBLE_DEVICES": self._config.gpu}

    def open(self, directory: Path, *, backstop: float) -> Gate:
        """Serves the device. Its tenants may use any CPU, at any time. Raises `OSError`."""
        return Device(directory, slots=self._config.harvest_slots, cpus=(), backstop=backstop, allows_cpu=True)

    def _gpus(self) -> dict[str, dict[str, str]]:
        """What the driver says of each GPU, by its UUID."""
        found = [_read(path) for path in sorted(self._driver.glob("gpus/*/information"))]
        return {gpu.get(_UUID, _NOT_STARTED): gpu for gpu in found}


def _read(path: Path) -> dict[str, str]:
    """Lines `name: value`; none of a file that cannot be read, of a GPU that is just going."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
