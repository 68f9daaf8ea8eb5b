"""Devices and nodes while a pass decides: who holds what."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rowen.crds.names import LATE_SECONDS
from rowen.scheduler.device import DeviceView
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.placement.fleet.claims import Claim, Impact
from rowen.scheduler.placement.fleet.columns import FULL, SHARED
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import NodeView


@dataclass(slots=True)
class DeviceState:
    """A device and the claims on it."""

    view: DeviceView
    row: int
    """Where it stands among all devices, by name of node and device."""
    free: int
    """Bytes of the pool that no one holds."""
    slots: int
    """Most claims that it takes."""
    node: "NodeState" = field(repr=False)
    level: IdleLevel
    part: float | None = None
    """What its engine was measured to give those that ride in it; None where nothing was."""
    claims: dict[str, Claim] = field(default_factory=dict)
    """Of those that run beside the engine."""
    riders: dict[str, Claim] = field(default_factory=dict)
    """Of those that the engine computes. Nobody runs beside them, and nobody rides beside the others."""
    plain: dict[int, Prediction] = field(default_factory=dict)
    """The factors for a job without memory of the pool, by tenants, itself among them: filled in as it is asked."""
    unseen: int = 0
    """Bytes of their own that claims will take of what the pool lends by the report, which does not know them yet."""

    @property
    def ridden(self) -> bool:
        """Whether somebody rides in its engine, and stays."""
        return not all(claim.leaves for claim in self.riders.values())

    @property
    def shared(self) -> bool:
        """Whether somebody runs beside its engine, and stays."""
        return not all(claim.leaves for claim in self.claims.values())

    @property
    def taken(self) -> int:
        """Slots that are taken. One that takes one job at a time takes none beside riders, also while they leave."""
        return len(self.claims) + (len(self.riders) if self.view.restraint else 0)

    def add(self, claim: Claim) -> None:
        """Takes the claim into account."""
        if claim.rides:
            self.riders[claim.key] = claim
            return
        self.claims[claim.key] = claim
        self.free -= claim.memory
        self.unseen += self._unseen_of(claim)

    def remove(self, claim: Claim) -> None:
        """Takes back a claim that was added."""
        if claim.rides:
            del self.riders[claim.key]
            return
        del self.claims[claim.key]
        self.free += claim.memory
        self.unseen -= self._unseen_of(claim)

    def _unseen_of(self, claim: Claim) -> int:
        if claim.pod is None:
            return claim.memory
        seen = self.node.view.tenancies.get(claim.pod, ())
        return 0 if any(device.id == self.view.id for device, _ in seen) else claim.memory

    @property
    def lends(self) -> bool:
        """Whether a claim on it has memory of its pool, so that a newcomer's own is at its cost."""
        return bool(self.view.available) and any(claim.appetite is not None for claim in self.claims.values())

    @property
    def group(self) -> int:
        """EMPTY, SHARED or FULL."""
        count = self.taken
        return FULL if self.ridden or count >= self.slots else min(count, SHARED)


@dataclass(slots=True)
class NodeState:
    """A node, its devices by id and its free slots."""

    view: NodeView
    free_slots: int
    refusal: str
    """Why nothing is placed on it; empty when it is open."""
    devices: dict[str, DeviceState] = field(default_factory=dict)
    rows: tuple[DeviceState, ...] = ()
    impacts: dict[tuple[tuple[str, ...], int], Impact] = field(default_factory=dict)
    """Worked out since the last claim on the node was added, by the newcomer's devices and its own bytes."""

    def open_devices(self) -> list[DeviceState]:
        """Those on which something may be placed, by id."""
        return [] if self.refusal else [state for state in self.devices.values() if not state.view.closed]

    def takes(self, state: DeviceState) -> bool:
        """Whether one more has a slot on the device."""
        return self.free_slots > 0 and state.taken < state.slots and not state.ridden

    def of(self, claim: Claim) -> list[DeviceState]:
        """The claim's devices that are known."""
        return [self.devices[id_] for id_ in claim.devices if id_ in self.devices]


def claims_on(devices: Iterable[DeviceState]) -> list[Claim]:
    """Every claim on the devices, once."""
    return list({claim.key: claim for state in devices for claim in state.claims.values()}.values())


def node_refusal(node: NodeView, now: float, policy: Policy) -> str:
    """Why nothing is placed on the node; empty when it is open."""
    if node.told is None or node.heard is None:
        return "no report of its agent"
    age = node.age(now)
    if age > policy.lease_seconds:
        return f"its agent has been silent for {age:.0f} s > {policy.lease_seconds} s"
    if now - node.told > LATE_SECONDS:
        return f"its last report is {now - node.told:.0f} s old > {LATE_SECONDS:.0f} s"
    if not node.ready:
        return "node is not Ready"
    if not node.schedulable:
        return "node is cordoned"
    return ""
