"""The harvested devices while a pass decides: who holds what, and what a newcomer would change."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar, cast

import numpy as np

from rowen.scheduler.model.alignment import alignment
from rowen.scheduler.model.prediction import Prediction, idle_fraction
from rowen.scheduler.placement.claims import NO_IMPACT, Claim, Fall, Impact, impact_of, sharing
from rowen.scheduler.placement.columns import FULL, SHARED, Columns, Flags, Numbers, Rows
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.eligibility import admits
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import DeviceView, JobView, NodeView

S = TypeVar("S")


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
    claims: dict[str, Claim] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Predicted fraction of a newcomer on it alone."""
        return self.view.idle * sharing(len(self.claims) + 1)

    @property
    def group(self) -> int:
        """EMPTY, SHARED or FULL."""
        count = len(self.claims)
        return FULL if count >= self.slots else min(count, SHARED)


@dataclass(slots=True)
class NodeState:
    """A node, its devices by id and its free slots."""

    view: NodeView
    free_slots: int
    refusal: str
    """Why nothing is placed on it; empty when it is open."""
    devices: dict[str, DeviceState] = field(default_factory=dict)
    rows: tuple[DeviceState, ...] = ()
    impacts: dict[tuple[str, ...], Impact] = field(default_factory=dict)
    """Worked out since the last claim on the node was added, by the newcomer's devices."""

    def open_devices(self) -> list[DeviceState]:
        """Those on which something may be placed, by id."""
        return [] if self.refusal else [state for state in self.devices.values() if not state.view.closed]

    def takes(self, state: DeviceState) -> bool:
        """Whether one more has a slot on the device."""
        return self.free_slots > 0 and len(state.claims) < state.slots


class Fleet:
    """A working copy of the cluster for one pass. What no claim touches is looked at in columns alone."""

    def __init__(self, nodes: Mapping[str, NodeView], now: float, policy: Policy) -> None:
        self.views = [nodes[name] for name in sorted(nodes)]
        self.number = {view.name: number for number, view in enumerate(self.views)}
        """Of each node, by name: its place in `views`."""
        self.refusals = [node_refusal(view, now, policy) for view in self.views]
        self.open_nodes = self.refusals.count("")
        self.columns = Columns(self.views, self.refusals)
        self.moved: list[int] = []
        """Numbers of the nodes on which a claim was added, in order."""
        self._states: dict[int, NodeState] = {}
        self._dirty: dict[int, DeviceState] = {}
        self._eligible: dict[Constraints, frozenset[int]] = {}
        self._rows: dict[Constraints, Flags | None] = {}
        self._sets: dict[int, Any] = {}
        self._types: tuple[list[str], Rows] | None = None
        self._threshold = policy.alignment_threshold

    def node(self, number: int) -> NodeState:
        """The node of that number."""
        if number not in self._states:
            self._states[number] = self._enter(number)
        return self._states[number]

    def _enter(self, number: int) -> NodeState:
        view, first = self.views[number], self.columns.first(number)
        node, each = NodeState(view, view.slots, self.refusals[number]), view.slots_each
        for at, (id_, device) in enumerate(view.by_id.items()):
            slots = min(1, each) if device.restraint else each
            node.devices[id_] = DeviceState(device, first + at, device.room, slots, node)
        node.rows = tuple(node.devices.values())
        return node

    def device(self, row: int) -> DeviceState:
        """The device in that row."""
        number = self.columns.node_of(row)
        return self.node(number).rows[row - self.columns.first(number)]

    def closed(self) -> Iterator[tuple[DeviceState, str]]:
        """Devices on which nothing is placed, by name, and why."""
        for row in self.columns.closed_rows():
            device = self.device(int(row))
            yield device, device.node.refusal or device.view.closed

    def add(self, claim: Claim) -> None:
        """Takes the claim into account."""
        number = self.number.get(claim.node)
        if number is None:
            return
        node = self.node(number)
        node.free_slots -= claim.slots
        node.impacts.clear()
        self.moved.append(number)
        states = _known(node, claim)
        for state in states:
            state.claims[claim.key] = claim
            state.free -= claim.memory
        self._soil(node, states)

    def _soil(self, node: NodeState, states: Sequence[DeviceState]) -> None:
        """Rows that a new claim on the devices changes: those of all who share a device with it."""
        soiled = list(states)
        for claim in _claims(states):
            if len(claim.devices) > 1:
                soiled += _known(node, claim)
        if node.free_slots <= 0:
            soiled = list(node.devices.values())
        self._dirty.update((state.row, state) for state in soiled)

    def settled(self) -> Columns:
        """The columns, brought up to date with what was added."""
        for state in self._dirty.values():
            impact, group = self.impact((state,)), state.group
            self.columns.change(state.row, state.share, state.free, impact, group, takes=state.node.takes(state))
        self._dirty.clear()
        return self.columns

    def eligible(self, constraints: Constraints) -> frozenset[int]:
        """The open nodes on which pods with these constraints can run, by number; each node is looked at once."""
        if constraints not in self._eligible:
            asks = constraints != Constraints()
            self._eligible[constraints] = frozenset(
                number
                for number in self._selected(constraints)
                if not self.refusals[number]
                and (not (asks or self.views[number].taints) or admits(self.views[number], constraints))
            )
        return self._eligible[constraints]

    def _selected(self, constraints: Constraints) -> Collection[int]:
        """Nodes among which all are that the constraints can mean: those of the rarest label that they select."""
        if constraints.node:
            return [self.number[constraints.node]] if constraints.node in self.number else []
        labelled = [self._labelled.get(label, []) for label in constraints.selector]
        return min(labelled, key=len, default=range(len(self.views)))

    @cached_property
    def _labelled(self) -> Mapping[tuple[str, str], list[int]]:
        """The nodes with each label, by number."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, view in enumerate(self.views):
            for label in view.labels.items():
                found.setdefault(label, []).append(number)
        return found

    def eligible_rows(self, constraints: Constraints) -> Flags | None:
        """Their devices; None where these are all that are open."""
        if constraints not in self._rows:
            eligible = self.eligible(constraints)
            self._rows[constraints] = None if len(eligible) == self.open_nodes else self.columns.on(eligible)
        return self._rows[constraints]

    def sets(self, count: int, make: Callable[["Fleet", int], S]) -> S:
        """What is known of sets of so many devices, made when it is asked for first."""
        if count not in self._sets:
            self._sets[count] = make(self, count)
        return cast("S", self._sets[count])

    @cached_property
    def widest(self) -> NodeView | None:
        """The first node by name of those with the most devices; None where there is none."""
        return max(self.views, key=lambda view: len(view.by_id), default=None)

    @cached_property
    def largest(self) -> DeviceView | None:
        """The first by name of the devices with the most memory, closed ones too; None where there is none."""
        return self._most(self.columns.memory, self.columns.memory >= 0.0)

    @cached_property
    def roomiest(self) -> DeviceView | None:
        """The same of the memory beside what the online pod may have, where that is known."""
        return self._most(self.columns.room, self.columns.known)

    @cached_property
    def unknown(self) -> DeviceView | None:
        """The same as `largest`, of the devices where it is not: without an engine, say."""
        return self._most(self.columns.memory, ~self.columns.known)

    def _most(self, column: Numbers, rows: Flags) -> DeviceView | None:
        row = self.columns.most(column, rows)
        return None if row is None else self.device(row).view

    def rates(self, rates: Mapping[str, float]) -> Numbers:
        """Of each device that of its type; 1 where there is none."""
        if self._types is None:
            codes: dict[str, int] = {}
            rows = [codes.setdefault(device.type, len(codes)) for view in self.views for device in view.by_id.values()]
            self._types = list(codes), np.array(rows, np.intp)
        types, rows_of = self._types
        return np.array([rates.get(type_, 1.0) for type_ in types])[rows_of]

    def predict(self, devices: Sequence[DeviceState], job: JobView) -> Prediction:
        """The factors for a newcomer on the devices, which are on one node."""
        fits = all(state.view.online_memory is not None and job.memory <= state.free for state in devices)
        return Prediction(
            idle=self._idle(devices),
            memory=1.0 if fits else 0.0,
            alignment=self.alignment(devices),
            sharing=sharing(1 + max(len(state.claims) for state in devices)),
        )

    def fraction(self, claim: Claim, joined: Collection[str] = ()) -> float:
        """Predicted fraction of a claim that is in, on the devices known; 0 where none is.

        `joined`: devices of its node that a newcomer has joined.
        """
        states = _known(self.node(self.number[claim.node]), claim) if claim.node in self.number else []
        if not states:
            return 0.0
        tenants = max(len(state.claims) + (state.view.id in joined) for state in states)
        return self._idle(states) * sharing(tenants)

    def _idle(self, devices: Sequence[DeviceState]) -> float:
        """I of the devices; of several it is worked out once for each report."""
        if len(devices) == 1:
            return devices[0].view.idle
        view = devices[0].node.view
        ids = tuple(state.view.id for state in devices)
        if ids not in view.lockstep:
            view.lockstep[ids] = idle_fraction([state.view for state in devices])
        return view.lockstep[ids]

    def impact(self, devices: Sequence[DeviceState]) -> Impact:
        """What a newcomer on the devices would do; worked out once as long as nobody joins their node."""
        if not any(state.claims for state in devices):
            return NO_IMPACT
        node = devices[0].node
        ids = tuple(state.view.id for state in devices)
        if ids not in node.impacts:
            falls = [Fall(claim, self.fraction(claim), self.fraction(claim, ids)) for claim in _claims(devices)]
            node.impacts[ids] = impact_of(tuple(falls))
        return node.impacts[ids]

    def share(self, devices: Sequence[DeviceState]) -> float:
        """Predicted fraction of a newcomer on the devices whose own memory has room."""
        return self._idle(devices) * sharing(1 + max(len(state.claims) for state in devices))

    def aligned(self, first: DeviceState, second: DeviceState) -> bool:
        """Whether two devices of a node are aligned."""
        return self.alignment((first, second)) >= self._threshold

    def alignment(self, devices: Sequence[DeviceState]) -> float:
        """Least A(i, j) of the devices, which are on one node; 1 for a single one."""
        if len(devices) == 1:
            return 1.0
        return min(alignment(first.view.busy, second.view.busy) for first, second in combinations(devices, 2))


def _known(node: NodeState, claim: Claim) -> list[DeviceState]:
    """The claim's devices that are known."""
    return [node.devices[id_] for id_ in claim.devices if id_ in node.devices]


def _claims(devices: Iterable[DeviceState]) -> list[Claim]:
    """Every claim on the devices, once."""
    return list({claim.key: claim for state in devices for claim in state.claims.values()}.values())


def node_refusal(node: NodeView, now: float, policy: Policy) -> str:
    """Why nothing is placed on the node; empty when it is open."""
    if node.told is None or node.heard is None:
        return "no report of its agent"
    age = node.age(now)
    if age > policy.lease_seconds:
        return f"its agent has been silent for {age:.0f} s > {policy.lease_seconds} s"
    if not node.ready:
        return "node is not Ready"
    if not node.schedulable:
        return "node is cordoned"
    return ""
