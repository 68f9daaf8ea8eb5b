"""The harvested devices while a pass decides: who holds what, and what a newcomer would change."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from rowen.scheduler.alignment import alignment
from rowen.scheduler.constraints import Constraints
from rowen.scheduler.eligibility import admits
from rowen.scheduler.policy import Policy
from rowen.scheduler.prediction import Prediction, idle_fraction
from rowen.scheduler.snapshot import DeviceKey, DeviceView, NodeView

Rank = tuple[int, float, str, str]
"""Order of single devices: empty, shared and full ones; in each by predicted fraction, then by name."""
EMPTY, SHARED, FULL = 0, 1, 2
_DIGITS = 9
"""What is smaller than these decimal places is rounding."""
_RANKINGS = 32
"""Most sets of nodes whose devices are kept in order; of others the order is worked out anew."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a job or a pod holds on a node."""

    key: str
    label: str
    node: str
    devices: tuple[str, ...]
    slots: int
    memory: int
    """Bytes per device."""
    need: float = 0.0
    """Least predicted fraction that it was promised; 0 for best effort."""
    priority: int = 0
    """The job's; 0 for a pod without an assignment."""


@dataclass(frozen=True, slots=True)
class Fall:
    """What a newcomer does to a claim, as fractions of its throughput alone."""

    claim: Claim
    before: float
    after: float

    @property
    def loss(self) -> float:
        """Device time that it loses, in devices."""
        return round((self.before - self.after) * len(self.claim.devices), _DIGITS)


@dataclass(frozen=True, slots=True)
class Impact:
    """What a newcomer does to everyone on its devices."""

    falls: tuple[Fall, ...]
    loss: float
    """Device time that they lose together, in devices."""
    priority: int
    """Highest priority of those who lose."""

    def gain(self, harvest: float) -> float:
        """Device time that is harvested in addition when the newcomer harvests so much; both in devices."""
        return round(harvest - self.loss, _DIGITS) or 0.0

    def forbids(self, gain: float, priority: int) -> bool:
        """Whether a newcomer has to stay away: it would lower the total, and not go before all who pay for it."""
        return gain < 0.0 and priority <= self.priority


@dataclass(slots=True)
class DeviceState:
    """A device and the claims on it."""

    view: DeviceView
    free: int
    """Bytes of the pool that no one holds."""
    slots: int
    """Most claims that it takes."""
    claims: dict[str, Claim] = field(default_factory=dict)

    def rank(self) -> Rank:
        """Where it stands for a job on a single device."""
        count = len(self.claims)
        group = FULL if count >= self.slots else min(count, SHARED)
        return group, -self.view.idle / (count + 1), self.view.node, self.view.id


@dataclass(slots=True)
class NodeState:
    """A node and its free slots."""

    view: NodeView
    free_slots: int
    refusal: str
    """Why nothing is placed on it; empty when it is open."""


@dataclass(slots=True)
class Ranking:
    """The open devices of some nodes in order, after so many moves."""

    ranks: list[Rank]
    moves: int

    def move(self, before: Rank, after: Rank) -> None:
        """Puts a device that is in it to its new place."""
        at = bisect_left(self.ranks, before)
        if at < len(self.ranks) and self.ranks[at] == before:
            del self.ranks[at]
            insort(self.ranks, after)


class Fleet:
    """A working copy of the cluster for one pass."""

    def __init__(self, nodes: Mapping[str, NodeView], now: float, policy: Policy) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.devices: dict[DeviceKey, DeviceState] = {}
        self.closed: list[tuple[DeviceKey, str]] = []
        """Devices on which nothing is placed, by name, and why."""
        self._all = Ranking([], 0)
        self._moves: list[tuple[Rank, Rank]] = []
        self._rankings: dict[frozenset[str], Ranking] = {}
        self._open: dict[str, list[DeviceState]] = {}
        self._alignments: dict[tuple[DeviceKey, DeviceKey], float] = {}
        self._impacts: dict[str, dict[tuple[str, ...], Impact]] = {}
        self._eligible: dict[Constraints, frozenset[str]] = {}
        for name in sorted(nodes):
            self._enter(nodes[name], now, policy)
        views = [state.view for state in self.devices.values()]
        self.largest = max(views, key=lambda view: view.memory, default=None)
        """The first by name of the devices with the most memory, closed ones too; None where there is none."""
        known = [view for view in views if view.online_memory is not None]
        self.roomiest = max(known, key=lambda view: view.room, default=None)
        """The same of the memory beside what the online pod may have, where that is known."""
        unknown = [view for view in views if view.online_memory is None]
        self.unknown = max(unknown, key=lambda view: view.memory, default=None)
        """The same as `largest`, of the devices where it is not: without an engine, say."""
        self._all.ranks.sort()

    def _enter(self, node: NodeView, now: float, policy: Policy) -> None:
        refusal = node_refusal(node, now, policy)
        self.nodes[node.name] = NodeState(node, node.slots, refusal)
        each = -(-node.slots // max(1, len(node.devices)))
        for device in node.devices:
            state = DeviceState(device, device.room, each)
            self.devices[device.key] = state
            reason = refusal or device_refusal(device)
            if reason:
                self.closed.append((device.key, reason))
            else:
                self._all.ranks.append(state.rank())
                self._open.setdefault(node.name, []).append(state)

    def add(self, claim: Claim) -> None:
        """Takes the claim into account."""
        node = self.nodes.get(claim.node)
        if node is None:
            return
        node.free_slots -= claim.slots
        self._impacts.pop(claim.node, None)
        for state in self._states(claim):
            before = state.rank()
            state.claims[claim.key] = claim
            state.free -= claim.memory
            self._moves.append((before, state.rank()))

    def _states(self, claim: Claim) -> list[DeviceState]:
        """The claim's devices that are known."""
        return [self.devices[claim.node, id_] for id_ in claim.devices if (claim.node, id_) in self.devices]

    def ranked(self, nodes: frozenset[str] | None = None) -> Iterator[DeviceState]:
        """Open devices of these nodes, or of all, in the order in which a job on one device takes them."""
        return (self.devices[node, id_] for _, _, node, id_ in self._ranks(nodes))

    def group(self, group: int, nodes: frozenset[str]) -> Iterator[DeviceState]:
        """Those of them that are EMPTY, SHARED or FULL."""
        ranks = self._ranks(nodes)
        first, last = (bisect_left(ranks, (edge, float("-inf"), "", "")) for edge in (group, group + 1))
        return (self.devices[ranks[at][2], ranks[at][3]] for at in range(first, last))

    def _ranks(self, nodes: frozenset[str] | None) -> list[Rank]:
        """Brought up to date only when it is asked for: most sets of nodes are asked for by few jobs."""
        ranking = self._all if nodes is None or len(nodes) == len(self._open) else self._ranking(nodes)
        for before, after in islice(self._moves, ranking.moves, None):
            if nodes is None or before[2] in nodes:
                ranking.move(before, after)
        ranking.moves = len(self._moves)
        return ranking.ranks

    def _ranking(self, nodes: frozenset[str]) -> Ranking:
        if nodes not in self._rankings:
            if len(self._rankings) == _RANKINGS:
                del self._rankings[next(iter(self._rankings))]
            ranks = [rank for rank in self._ranks(None) if rank[2] in nodes]
            self._rankings[nodes] = Ranking(ranks, len(self._moves))
        return self._rankings[nodes]

    def open_nodes(self, count: int) -> Iterator[list[DeviceState]]:
        """The open devices of each node that has at least `count` of them."""
        return (states for states in self._open.values() if len(states) >= count)

    def eligible(self, constraints: Constraints) -> frozenset[str]:
        """The open nodes on which pods with these constraints can run; each node is looked at once."""
        if constraints not in self._eligible:
            found = frozenset(name for name in self._open if admits(self.nodes[name].view, constraints))
            self._eligible[constraints] = found
        return self._eligible[constraints]

    def predict(self, devices: Sequence[DeviceState], memory: int) -> Prediction:
        """The factors for a newcomer of `memory` bytes per device."""
        views = [state.view for state in devices]
        fits = all(state.view.online_memory is not None and memory <= state.free for state in devices)
        return Prediction(
            idle=idle_fraction(views, self.nodes[views[0].node].view.window),
            memory=1.0 if fits else 0.0,
            alignment=min((self.alignment(a, b) for a, b in combinations(devices, 2)), default=1.0),
            sharing=1.0 / (1 + max(len(state.claims) for state in devices)),
        )

    def fraction(self, claim: Claim, joined: Collection[str] = ()) -> float:
        """Predicted fraction of a claim that is in, on the devices known; 0 where none is.

        `joined`: devices of its node that a newcomer has joined.
        """
        states = self._states(claim)
        if not states:
            return 0.0
        idle = idle_fraction([state.view for state in states], self.nodes[claim.node].view.window)
        return idle / max(len(state.claims) + (state.view.id in joined) for state in states)

    def impact(self, devices: Sequence[DeviceState]) -> Impact:
        """What a newcomer on the devices would do; worked out once as long as nobody joins their node.

        A search asks this of every shared device, and the next job's search asks it again.
        """
        ids = tuple(state.view.id for state in devices)
        known = self._impacts.setdefault(devices[0].view.node, {})
        if ids not in known:
            falls = [Fall(claim, self.fraction(claim), self.fraction(claim, ids)) for claim in _claims(devices)]
            losers = [fall.claim.priority for fall in falls if fall.loss > 0.0]
            known[ids] = Impact(tuple(falls), sum(fall.loss for fall in falls), max(losers, default=0))
        return known[ids]

    def alignment(self, first: DeviceState, second: DeviceState) -> float:
        """A(i, j) of two devices of a node, worked out once."""
        pair = (min(first.view.key, second.view.key), max(first.view.key, second.view.key))
        if pair not in self._alignments:
            self._alignments[pair] = alignment(first.view.busy, second.view.busy)
        return self._alignments[pair]


def _claims(devices: Iterable[DeviceState]) -> list[Claim]:
    """Every claim on the devices, once."""
    return list({claim.key: claim for state in devices for claim in state.claims.values()}.values())


def node_refusal(node: NodeView, now: float, policy: Policy) -> str:
    """Why nothing is placed on the node; empty when it is open."""
    if node.heard is None:
        return "no report of its agent"
    age = node.age(now)
    if age > policy.lease_seconds:
        return f"report is {age:.0f} s old > {policy.lease_seconds} s"
    if not node.ready:
        return "node is not Ready"
    if not node.schedulable:
        return "node is cordoned"
    return ""


def device_refusal(device: DeviceView) -> str:
    """Why nothing is placed on the device; empty when it is open."""
    if device.refusal:
        return device.refusal
    if not device.attached:
        return "idle 0.00: no online engine attached, so its gate is closed"
    if device.online_memory is None:
        return "memory 0: the online pod's memory is not known (it declares none)"
    return ""
