"""Pods of this node, as far as devices concern them, and where the kubelet put them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from rowen.crds.base import stored_quantity_bytes
from rowen.crds.names import (
    DEVICES_ANNOTATION,
    HARVEST_MEMORY_ANNOTATION,
    HARVEST_RESOURCE,
    JOB_LABEL,
    ONLINE_RESOURCE,
    POOL_BYTES_ENV,
    SERVICE_LABEL,
)
from rowen.crds.online_service import HarvestMemory

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class PodView:
    """A pod."""

    namespace: str
    name: str
    service: str | None = None
    job: str | None = None
    phase: str = "Running"
    created: str = ""
    """RFC 3339."""
    devices: tuple[str, ...] = ()
    """Devices that the scheduler chose for it."""
    uid: str = ""
    """Empty where the API server has not said."""
    memory: HarvestMemory = field(default_factory=HarvestMemory)
    """What the service of an engine's pod asks for."""
    fixed_bytes: int = 0
    """What it has for itself on each of its devices: a container's limit, its request where that asks for the pool."""
    pool_bytes: int = 0
    """What it may have of each device's pool at most: limit less request of the containers that ask for it."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


Holders = Mapping[str, Mapping[str, tuple[str, str]]]
"""Resource → device id → (namespace, name) of the pod that holds it."""


@dataclass(frozen=True)
class Placements:
    """Pods on one device."""

    online: PodView | None = None
    slots: tuple[tuple[int, PodView], ...] = ()

    @property
    def pods(self) -> list[PodView]:
        """All of them."""
        return [*([self.online] if self.online else []), *(pod for _, pod in self.slots)]


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """From the API server's object."""
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    devices = annotations.get(DEVICES_ANNOTATION, "")
    fixed_bytes, pool_bytes = _amounts(_running(pod.get("spec") or {}))
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        service=labels.get(SERVICE_LABEL),
        job=labels.get(JOB_LABEL),
        phase=(pod.get("status") or {}).get("phase", "Pending"),
        created=metadata.get("creationTimestamp", ""),
        uid=metadata.get("uid", ""),
        devices=tuple(part for part in devices.split(",") if part),
        memory=_memory(annotations.get(HARVEST_MEMORY_ANNOTATION)),
        fixed_bytes=fixed_bytes,
        pool_bytes=pool_bytes,
    )


def _running(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The containers that run for as long as the pod does: init containers that are sidecars are among them."""
    sidecars = (entry for entry in spec.get("initContainers") or () if entry.get("restartPolicy") == "Always")
    return [*(spec.get("containers") or ()), *sidecars]


def _amounts(containers: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Per device: what all containers have for themselves, and what those with devices may have of the pool.

    What a container that does not ask for the pool has beyond its request, nobody could take from it: it is its own.
    """
    fixed = pool = devices = 0
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        limit = _bytes(limits.get("memory")) or _bytes(requests.get("memory")) or 0
        asked = _bytes(requests.get("memory"))
        request = limit if asked is None else asked
        held = sum(_count(limits.get(name)) for name in (ONLINE_RESOURCE, HARVEST_RESOURCE))
        devices += held
        lent = held and any(variable.get("name") == POOL_BYTES_ENV for variable in container.get("env") or ())
        pool += max(0, limit - request) if lent else 0
        fixed += request if lent else limit
    return -(-fixed // max(1, devices)), pool // max(1, devices)


def _bytes(quantity: object) -> int | None:
    """None where it is missing, or no quantity."""
    try:
        return None if quantity is None else stored_quantity_bytes(str(quantity))
    except ValueError:
        return None


def _count(quantity: object) -> int:
    text = str(quantity)
    return int(text) if text.isdecimal() else 0


def _memory(text: str | None) -> HarvestMemory:
    """The defaults where there is none, or none that can be read; fields of a newer operator are passed over."""
    try:
        return HarvestMemory.model_validate_json(text or "{}", extra="ignore")
    except ValidationError:
        return HarvestMemory()


def device_and_slot(slot_id: str) -> tuple[str, int]:
    """The parts of an id of the harvest resource."""
    device, _, slot = slot_id.rpartition("-")
    return device, int(slot)


def placements(device: str, holders: Holders, pods: Iterable[PodView]) -> Placements:
    """Who is on a device; a holder that the API server no longer lists counts with its name alone."""
    known = {pod.key: pod for pod in pods}

    def view(key: tuple[str, str]) -> PodView | None:
        pod = known.get(key, PodView(*key))
        return None if pod.phase in _ENDED else pod

    online = holders.get(ONLINE_RESOURCE, {}).get(device)
    slots = []
    for slot_id, key in holders.get(HARVEST_RESOURCE, {}).items():
        name, slot = device_and_slot(slot_id)
        pod = view(key)
        if name == device and pod:
            slots.append((slot, pod))
    return Placements(online=view(online) if online else None, slots=tuple(sorted(slots, key=lambda item: item[0])))


def preferred_slots(available: Iterable[str], required: Iterable[str], size: int, pods: Iterable[PodView]) -> list[str]:
    """Which slots to hand out: each of another device as far as there are enough.

    First come the devices chosen for the pod of that size that has waited longest.
    """
    chosen = list(required)
    waiting = [pod for pod in pods if pod.phase == "Pending" and len(pod.devices) == size]
    wanted = min(waiting, key=lambda pod: pod.created).devices if waiting else ()
    rest = sorted(set(available) - set(chosen), key=lambda slot: (device_and_slot(slot)[0] not in wanted, slot))
    for slot in rest:
        if device_and_slot(slot)[0] not in {device_and_slot(other)[0] for other in chosen}:
            chosen.append(slot)
    chosen += [slot for slot in rest if slot not in chosen]
    return chosen[:size]
