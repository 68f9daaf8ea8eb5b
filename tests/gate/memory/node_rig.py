"""A whole node, as the agent runs it, around one device with real processes: what is done twice a second is done here
when a test says so."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gate.borrower import BYTES
from gate.pod import Pod
from gate.rig import Rig, until

from rowen.crds.names import HARVEST_RESOURCE, ONLINE_RESOURCE
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.devices.allocation import SOCKET, door_directory
from rowen.node_agent.devices.served import ServedDevice
from rowen.node_agent.kubelet.pods import Holders, PodView
from rowen.node_agent.memory.pool_status import MemberStatus, PoolStatus
from rowen.node_agent.node import Node

DEVICE = "cpu1"
WINDOW = 60.0


class NodeRig(Rig):
    """Its device has so many handles of `BYTES`, two slots, and an engine's pod."""

    def __init__(self, folder: Path, *, cpu: int, handles: int, backstop: float = 5) -> None:
        self.folder = folder
        folder.mkdir()
        self.settings = Settings(node="n", run_directory=folder / "run", backstop_seconds=backstop)
        self.config = CpuDeviceConfig(id=DEVICE, cpus=str(cpu), memory=str(handles * BYTES), handle=str(BYTES))
        self._cleanup: list[Callable[[], None]] = []
        self._tenants = 0
        self.engine_pod = Pod()
        self.pods = [Pod(), Pod(), self.engine_pod]
        self.views: dict[int | None, PodView] = {}
        self.start()

    def start(self) -> None:
        """A new agent."""
        self.node = self.agent = Node(self.settings, [self.config])  # type: ignore[assignment]
        self.node.devices[DEVICE].gate.renew(time.monotonic() + 3600)

    @property
    def served(self) -> ServedDevice:
        return self.node.devices[DEVICE]

    def socket(self, slot: int | None) -> Path:
        return door_directory(self.folder / "run", DEVICE, slot) / SOCKET

    def entering(self, slot: int | None) -> Callable[[], None]:
        return (self.engine_pod if slot is None else self.pods[slot]).join

    def place(self, slot: int | None, *, fixed: int = 0, pool: int = 0, **more: Any) -> None:
        """The API server and the kubelet say whose the slot is, or the device, and what it has, in handles."""
        uid = (self.engine_pod if slot is None else self.pods[slot]).uid
        name = "engine" if slot is None else f"tenant-{slot}"
        self.views[slot] = PodView("lab", name, uid=uid, fixed_bytes=fixed * BYTES, pool_bytes=pool * BYTES, **more)
        self.tell()

    def tell(self) -> None:
        """Says it again, to a new agent."""
        self.node.place(self.holders(), list(self.views.values()))

    def holders(self) -> Holders:
        """What the kubelet says."""
        slots = {f"{DEVICE}-{slot}": view.key for slot, view in self.views.items() if slot is not None}
        online = {DEVICE: self.views[None].key} if None in self.views else {}
        return {ONLINE_RESOURCE: online, HARVEST_RESOURCE: slots}

    def sample(self) -> PoolStatus:
        self.node.sample(WINDOW)
        assert self.served.gate.loans is not None
        return self.served.gate.loans.status()

    def until(self, holds: Callable[[PoolStatus], bool], what: str) -> None:
        """Samples until the pool is as expected."""
        until(lambda: holds(self.sample()), what)

    def member(self, slot: int | None, status: PoolStatus) -> MemberStatus:
        """Of the only process there. Raises `StopIteration`."""
        assert self.served.gate.loans is not None
        borrowers = self.served.gate.loans.borrowers
        return status.of(next(number for number, borrower in borrowers.items() if borrower.slot == slot))
