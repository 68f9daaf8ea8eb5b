"""What a pod's containers have in memory, as their resources in the API server say it. Parsing only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowen.crds.base import stored_quantity_bytes
from rowen.crds.names import HARVEST_RESOURCE, ONLINE_RESOURCE, POOL_BYTES_ENV


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """Of one container. Bytes; None: it declares none, or what it declares is not understood."""

    own: int | None
    """For itself: the request where the rest of the limit comes out of a device's pool, else the limit.

    What a container that has no part of a pool has beyond its request, nobody could take from it.
    """
    most: int | None
    """In all: the limit, or the request where there is none."""
    devices: int
    """Devices and slots of devices that it holds."""

    @property
    def pool(self) -> int:
        """What it may have of the pools of its devices at most; 0 where one of the two is unknown."""
        return 0 if self.own is None or self.most is None else max(0, self.most - self.own)


def memory_of_containers(spec: Mapping[str, Any]) -> list[ContainerMemory]:
    """Of a pod's spec, each container that runs for as long as the pod does.

    Init containers that are sidecars are among them; the others have ended when the rest begins.
    """
    sidecars = (entry for entry in spec.get("initContainers") or () if entry.get("restartPolicy") == "Always")
    return [_memory_of(container) for container in (*(spec.get("containers") or ()), *sidecars)]


def _memory_of(container: Mapping[str, Any]) -> ContainerMemory:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    request, limit = requests.get("memory"), limits.get("memory")
    most = _bytes(request if limit is None else limit)
    devices = sum(_count(limits.get(name)) for name in (ONLINE_RESOURCE, HARVEST_RESOURCE))
    asks = any(variable.get("name") == POOL_BYTES_ENV for variable in container.get("env") or ())
    own = _bytes(request) if asks and devices and request is not None else most
    return ContainerMemory(own, most, devices)


def _bytes(quantity: object) -> int | None:
    """None where it is missing, or no quantity."""
    try:
        return None if quantity is None else stored_quantity_bytes(str(quantity))
    except ValueError:
        return None


def _count(quantity: object) -> int:
    text = str(quantity)
    return int(text) if text.isdecimal() else 0
