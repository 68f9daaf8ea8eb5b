"""Whose the memory of the service's device is, as its agent says."""

import json
import threading
from collections.abc import Iterator

from kit.kubectl import KubectlError, items, kubectl
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.demo.verdict.memory import Reclaimed, parse_reclaimed

AGENT_NAMESPACE = "rowen-agent"
AGENTS = "app.kubernetes.io/component=agent"
_PAUSE_SECONDS = 1.0


def _ask(agent: str, path: str) -> str:
    return kubectl("get", "--raw", f"/api/v1/namespaces/{AGENT_NAMESPACE}/pods/{agent}:9090/proxy/{path}")


def _told() -> Iterator[tuple[str, DeviceDetail]]:
    """All devices as of now, each with its agent's pod; those of agents that do not answer are left out."""
    for pod in items("pods", AGENT_NAMESPACE, AGENTS):
        agent = pod["metadata"]["name"]
        try:
            devices = json.loads(_ask(agent, "v1/devices"))["devices"]
        except KubectlError:
            continue
        yield from ((agent, DeviceDetail.from_wire(device)) for device in devices)


def details() -> list[DeviceDetail]:
    """All devices as of now."""
    return [device for _, device in _told()]


def find(service: str) -> tuple[str, DeviceDetail] | None:
    """The device that the service's engine runs on, as of now, and its agent's pod; None while no agent tells of it."""
    return next(((pod, found) for pod, found in _told() if found.online and found.online.service == service), None)


def owners(service: str) -> PoolOwners:
    """The device's owners. Raises `LookupError` where no agent tells of a pool."""
    _, device = find(service) or (None, None)
    if device is None or device.pool is None:
        raise LookupError(f"no agent tells whose the memory of {service}'s device is: {device}")
    pool = device.pool
    parts = (pool.fixed_bytes, pool.online_used_bytes, pool.online_ahead_bytes, pool.offline_bytes, pool.free_bytes)
    assert sum(parts) == device.memory_bytes, f"{pool} are not the {device.memory_bytes} bytes of the device"
    return pool


def reclaimed(service: str) -> Reclaimed:
    """What was taken from offline work on the device, since its agent started."""
    agent, device = find(service) or ("", None)
    return parse_reclaimed(_ask(agent, "metrics"))[device.id] if device else Reclaimed()


class Watched:
    """The owners again and again, while a test does something else."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.seen: list[PoolOwners] = []
        self.error: Exception | None = None

    def _run(self) -> None:
        try:
            while not self._stop.wait(_PAUSE_SECONDS):
                self.seen.append(owners(self._service))
        except Exception as error:
            self.error = error

    def __enter__(self) -> "Watched":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=120)
