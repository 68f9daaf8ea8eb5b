"""Pods of this node, as far as devices concern them, and where the kubelet put them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from rowen.crds.names import (
    DEVICES_ANNOTATION,
    HARVEST_MEMORY_ANNOTATION,
    HARVEST_RESOURCE,
    JOB_LABEL,
    ONLINE_RESOURCE,
    RIDE_RESOURCE,
    SERVICE_LABEL,
)
from rowen.crds.pod.container_memory import ContainerMemory, memory_of_containers
from rowen.crds.ride.messages import MOST_SEATS
from rowen.crds.service.online_service import HarvestMemory


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
    engines: int = 0
    """Containers that hold devices as engines do."""
    rides: bool = False
    """Whether it asks for a seat in an engine, in place of slots."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def ended(self) -> bool:
        """Whether it has no process any more."""
        return self.phase in ("Succeeded", "Failed")


Holders = Mapping[str, Mapping[str, tuple[str, str]]]
"""Resource → device id → (namespace, name) of the pod that holds it."""


@dataclass(frozen=True)
class Placements:
    """Pods on one device."""

    online: PodView | None = None
    slots: tuple[tuple[int, PodView], ...] = ()
    riders: tuple[tuple[str, PodView], ...] = ()
    """By seat: pods that ride in its engine, `MOST_SEATS` at most. They have no part of it themselves."""

    @property
    def pods(self) -> list[PodView]:
        """All that compute on it themselves."""
        return [*([self.online] if self.online else []), *(pod for _, pod in self.slots)]


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """From the API server's object."""
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    devices = annotations.get(DEVICES_ANNOTATION, "")
    spec = pod.get("spec") or {}
    fixed_bytes, pool_bytes = _per_device(memory_of_containers(spec))
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
        engines=sum(ONLINE_RESOURCE in _limits(container) for container in spec.get("containers") or ()),
        rides=any(RIDE_RESOURCE in _limits(container) for container in spec.get("containers") or ()),
    )


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}


def _per_device(containers: Sequence[ContainerMemory]) -> tuple[int, int]:
    """What all containers have for themselves, and what they may have of the pool; unknown counts as 0."""
    devices = max(1, sum(container.devices for container in containers))
    fixed = sum(container.own or 0 for container in containers)
    return -(-fixed // devices), sum(container.pool for container in containers) // devices


def _memory(text: str | None) -> HarvestMemory:
    """The defaults where there is none, or none that can be read; fields of a newer operator are passed over."""
    try:
        return HarvestMemory.model_validate_json(text or "{}", extra="ignore")
    except ValidationError:
        return HarvestMemory()


def device_and_slot(slot_id: str) -> tuple[str, int]:
    """The parts of an id of the harvest resource, or of the ride resource."""
    device, _, slot = slot_id.rpartition("-")
    return device, int(slot)


def ridden_device(seat_id: str, pod: PodView) -> str:
    """In whose engine a pod rides: of the device that the scheduler chose, whatever seat the kubelet has handed out."""
    return pod.devices[0] if len(pod.devices) == 1 else device_and_slot(seat_id)[0]


def placements(device: str, holders: Holders, pods: Iterable[PodView]) -> Placements:
    """Who is on a device; a holder that the API server no longer lists counts with its name alone."""
    known = {pod.key: pod for pod in pods}

    def view(key: tuple[str, str]) -> PodView | None:
        pod = known.get(key, PodView(*key))
        return None if pod.ended else pod

    online = holders.get(ONLINE_RESOURCE, {}).get(device)
    slots = []
    for slot_id, key in holders.get(HARVEST_RESOURCE, {}).items():
        name, slot = device_and_slot(slot_id)
        pod = view(key)
        if name == device and pod:
            slots.append((slot, pod))
    engine = view(online) if online else None
    seats = ((seat_id, view(key)) for seat_id, key in holders.get(RIDE_RESOURCE, {}).items())
    riders = [(seat_id, pod) for seat_id, pod in seats if pod and ridden_device(seat_id, pod) == device]
    return Placements(
        online=engine,
        slots=tuple(sorted(slots, key=lambda item: item[0])),
        riders=tuple(sorted(_seated(riders, engine), key=lambda item: item[0])),
    )


def _seated(riders: Iterable[tuple[str, PodView]], engine: PodView | None) -> list[tuple[str, PodView]]:
    """As many as an engine has seats: a pod may name any device of its node, and others have no seat there.

    First those whom the engine may take in, and of them those of jobs, the oldest first.
    """

    def order(rider: tuple[str, PodView]) -> tuple[bool, bool, str, str]:
        seat_id, pod = rider
        return engine is None or pod.namespace != engine.namespace, pod.job is None, pod.created, seat_id

    return sorted(riders, key=order)[:MOST_SEATS]


def telling_devices(engines: Mapping[str, PodView | None]) -> set[str]:
    """Devices whose requests count: an engine on several tells each of them all of its requests.

    `engines`: the engine's pod on each device, by the device's id, first where it is attached; None: not known, or
    gone. In a pod of several engines each device may be another one's: all of them count.
    """
    first: dict[object, str] = {}
    for device, pod in engines.items():
        first.setdefault(pod.key if pod and pod.engines <= 1 else device, device)
    return set(first.values())


def preferred_devices(
    available: Iterable[str], required: Sequence[str], size: int, kinds: Mapping[str, str]
) -> list[str]:
    """Which devices an engine is to get: alike as far as there are enough, of the kind that has the fewest to spare.

    `kinds`: what each device is, by its id.
    """
    rest = set(available) - set(required)
    free = Counter(kinds.get(device) for device in rest)
    chosen = {kinds.get(device) for device in required}

    def order(device: str) -> tuple[bool, bool, int, str]:
        kind = kinds.get(device)
        return kind not in chosen, free[kind] < size, free[kind], device

    return [*required, *sorted(rest, key=order)][:size]


def preferred_slots(
    available: Iterable[str], required: Iterable[str], size: int, pods: Iterable[PodView], *, ride: bool = False
) -> list[str]:
    """Which slots to hand out, or with `ride` which seats: each of another device as far as there are enough.

    First come the devices chosen for the pod of that size that has waited longest.
    """
    chosen = list(required)
    waiting = [pod for pod in pods if pod.phase == "Pending" and len(pod.devices) == size and pod.rides == ride]
    wanted = min(waiting, key=lambda pod: pod.created).devices if waiting else ()
    rest = sorted(set(available) - set(chosen), key=lambda slot: (device_and_slot(slot)[0] not in wanted, slot))
    for slot in rest:
        if device_and_slot(slot)[0] not in {device_and_slot(other)[0] for other in chosen}:
            chosen.append(slot)
    chosen += [slot for slot in rest if slot not in chosen]
    return chosen[:size]
