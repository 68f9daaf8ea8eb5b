"""The harvested devices while a pass decides: who holds what, and what a newcomer would change."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

from rowen.scheduler.device import DeviceKey, DeviceView
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.memory import MemoryNeed
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet.claims import NO_IMPACT, Claim, Fall, Impact, fall_of, impact_of
from rowen.scheduler.placement.fleet.columns import Columns, Flags, Numbers
from rowen.scheduler.placement.fleet.eligible import Eligible
from rowen.scheduler.placement.fleet.forecast import forecast, least_alignment, pair_alignment, plain, riding
from rowen.scheduler.placement.fleet.offer import Lending, Offer
from rowen.scheduler.placement.fleet.states import DeviceState, NodeState, claims_on, node_refusal
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView

NOWHERE = Prediction(idle=0.0, memory=1.0, alignment=1.0, sharing=1.0)
"""Of a claim whose devices nobody knows."""
S = TypeVar("S")
Needs = tuple[MemoryNeed | None, ...]
"""By kind of device, see `Columns.needs`."""
_OFFERS = 128
"""So many are kept, and so many constraints' devices. Where every job is unlike all others, none is asked for twice."""


class Fleet:
    """A working copy of the cluster for one pass. What no claim touches is looked at in columns alone."""

    def __init__(
        self,
        nodes: Mapping[str, NodeView],
        now: float,
        policy: Policy,
        parts: Mapping[DeviceKey, float] = MappingProxyType({}),
    ) -> None:
        """`parts`: what engines were measured to give those that ride in them."""
        self._parts = parts
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
        self._eligible = Eligible(self.views, self.refusals, self.number)
        self._rows: dict[Constraints, Flags | None] = {}
        self._sets: dict[tuple[int, Appetite | None, int], Any] = {}
        self._plain = Offer(self.columns)
        self._needs: dict[Appetite, Needs] = {}
        self._same: dict[Needs, Needs] = {}
        self._offers: dict[tuple[Needs, int], Lending] = {}
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
            level = IdleLevel(device.idle, device.deviation)
            part = self._parts.get(device.key) if device.engine is not None else None
            node.devices[id_] = DeviceState(device, first + at, device.room, slots, node, level, part)
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
        states = node.of(claim)
        for state in states:
            state.add(claim)
        self._soil(node, states)

    def remove(self, claim: Claim) -> None:
        """Takes back a claim that was added."""
        node = self.node(self.number[claim.node])
        states = node.of(claim)
        self._soil(node, states)
        node.free_slots += claim.slots
        node.impacts.clear()
        self.moved.append(self.number[claim.node])
        for state in states:
            state.remove(claim)

    def _soil(self, node: NodeState, states: Sequence[DeviceState]) -> None:
        """Rows that a new claim on the devices changes: those of all who share a device with it."""
        soiled = list(states) if node.free_slots > 0 else list(node.rows)
        for state in states:
            for claim in state.claims.values():
                if len(claim.devices) > 1:
                    soiled += node.of(claim)
        for state in soiled:
            self._dirty[state.row] = state

    def settled(self) -> Columns:
        """The columns, brought up to date with what was added."""
        for state in self._dirty.values():
            takes = state.node.takes(state)
            # What nobody joins costs nobody anything.
            impact = self.impact((state,), 0) if takes else NO_IMPACT
            self.columns.lend(state.row, state.unseen, lends=state.lends)
            tenants = len(state.claims)
            self.columns.change(state.row, tenants, state.level, state.free, impact, state.group, takes=takes)
        self._dirty.clear()
        return self.columns

    def eligible(self, constraints: Constraints) -> frozenset[int]:
        """The open nodes on which pods with these constraints can run, by number."""
        return self._eligible.nodes(constraints)

    def eligible_rows(self, constraints: Constraints) -> Flags | None:
        """Their devices; None where these are all that are open."""
        if constraints not in self._rows:
            if len(self._rows) >= _OFFERS:
                self._rows.clear()
            eligible = self.eligible(constraints)
            self._rows[constraints] = None if len(eligible) == self.open_nodes else self.columns.on(eligible)
        return self._rows[constraints]

    def sets(
        self, count: int, appetite: Appetite | None, own: int, make: Callable[["Fleet", int, Appetite | None, int], S]
    ) -> S:
        """What is known of sets of so many devices for jobs that are alike, made when it is asked for first."""
        key = count, appetite, own if self.columns.trades else 0
        if key not in self._sets:
            self._sets[key] = make(self, *key)
        return cast("S", self._sets[key])

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
        types, of_rows = self.columns.types
        found: Numbers = np.array([rates.get(type_, 1.0) for type_ in types])[of_rows]
        return found

    def offer(self, appetite: Appetite | None, own: int) -> Offer:
        """What every device offers a newcomer with so many bytes of its own, as it is now."""
        columns = self.settled()
        needs = self.needs(appetite) if appetite is not None else ()
        if not needs and not (own and columns.lending):
            return self._plain
        key = needs, own
        offer = self._offers.get(key)
        if offer is None:
            if len(self._offers) >= _OFFERS:
                self._offers.clear()
            offer = self._offers[key] = Lending(needs, own, columns, self._cost)
        offer.refresh()
        return offer

    def needs(self, appetite: Appetite) -> Needs:
        """What jobs with the appetite do on each kind of device; empty where memory never changes its owner."""
        if appetite not in self._needs:
            needs = self.columns.needs(appetite)
            # Of those that are equal one object: it is compared at each look-up of an offer.
            self._needs[appetite] = self._same.setdefault(needs, needs) if any(needs) else ()
        return self._needs[appetite]

    def _cost(self, row: int, own: int) -> Impact:
        return self.impact((self.device(row),), own)

    def predict(self, devices: Sequence[DeviceState], job: JobView, appetite: Appetite | None) -> Prediction:
        """The factors for a newcomer on the devices, which are on one node."""
        fits = all(state.view.online_memory is not None and job.memory <= state.free for state in devices)
        return self.newcomer(devices, job.memory, appetite, least_alignment(devices), fits=fits)

    def standing(
        self, claim: Claim, joined: Collection[str] = (), without: Collection[str] = (), own: int = 0
    ) -> Prediction:
        """The factors of a claim that is in, on the devices known; idle 0 where none is.

        `joined`: devices of its node that a newcomer has joined, with so many bytes of its `own`; `without`: claims, by
        key, that are thought away, and theirs is lent again.
        """
        states = self._of(claim)
        if not states:
            return NOWHERE
        if claim.rides:
            return riding(states[0], len(states[0].riders.keys() - without))
        tenants = [len(state.claims) + (state.view.id in joined) for state in states]
        taken = [state.unseen + (own if state.view.id in joined else 0) for state in states]
        for at, state in enumerate(states) if without else ():
            gone = [state.claims[key].memory for key in without if key in state.claims]
            tenants[at] -= len(gone)
            taken[at] -= sum(gone)
        return forecast(states, tenants, taken, claim.appetite)

    def neighbours(self, claim: Claim) -> list[str]:
        """Keys of the other claims on the devices of one that is in."""
        states = self._of(claim)
        others = (
            [other for state in states for other in state.riders]
            if claim.rides
            else [other.key for other in claims_on(states)]
        )
        return [key for key in others if key != claim.key]

    def _of(self, claim: Claim) -> list[DeviceState]:
        """The devices of one that is in."""
        number = self.number.get(claim.node)
        return [] if number is None else self.node(number).of(claim)

    def impact(self, devices: Sequence[DeviceState], own: int) -> Impact:
        """What a newcomer with so many bytes of its own would do; worked out once as long as nobody joins the node."""
        if not any(state.claims for state in devices):
            return NO_IMPACT
        node = devices[0].node
        ids = tuple([state.view.id for state in devices])
        key = ids, own if own and any(state.lends for state in devices) else 0
        if key not in node.impacts:
            falls = tuple([self._fall(claim, devices, ids, own) for claim in claims_on(devices)])
            node.impacts[key] = impact_of(falls)
        return node.impacts[key]

    def _fall(self, claim: Claim, devices: Sequence[DeviceState], ids: Sequence[str], own: int) -> Fall:
        if claim.appetite is None and len(claim.devices) == len(devices) == 1:
            # By far the most: it only counts how many share the device.
            tenants = len(devices[0].claims)
            return fall_of(claim, plain(devices[0], tenants), plain(devices[0], tenants + 1))
        return fall_of(claim, self.standing(claim), self.standing(claim, ids, own=own))

    def newcomer(
        self,
        devices: Sequence[DeviceState],
        own: int,
        appetite: Appetite | None,
        least: float = 1.0,
        *,
        fits: bool = True,
    ) -> Prediction:
        """The factors for a newcomer on the devices, with so many bytes of its own; `least`: their alignment."""
        tenants = [len(state.claims) + 1 for state in devices]
        taken = [state.unseen + own for state in devices] if appetite is not None else ()
        return forecast(devices, tenants, taken, appetite, least=least, fits=fits)

    def aligned(self, first: DeviceState, second: DeviceState) -> bool:
        """Whether two devices of a node are aligned."""
        return pair_alignment(first, second) >= self._threshold
