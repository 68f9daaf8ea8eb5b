"""The search for several devices of one node, best node first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.placement.fleet.columns import NEVER, Numbers, key_of
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState, NodeState
from rowen.scheduler.placement.search.evaluation import evaluate
from rowen.scheduler.placement.search.request import Candidate, Request
from rowen.scheduler.policy import Policy

_SETS_PER_NODE = 16
"""Most aligned sets of the same devices that are looked at: those of the emptiest and idlest."""


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """Aligned devices of a node, and what a newcomer that is alike would get there if its own memory had room."""

    key: float
    """Place in the order of gains (`key_of`); what depends on the job only takes from it."""
    fraction: float
    free: int
    """Bytes on the tightest of them."""
    payer: int
    """Highest priority of those who pay."""
    devices: tuple[DeviceState, ...]


class Sets:
    """The sets of `count` devices in a fleet for jobs with one appetite and `own` bytes for themselves.

    They are worked out when a search comes to their node.
    Until then a node stands for the most that any `count` of its devices can give: their least share each, and no
    loss. So a search that goes by these bounds and ends when the next is no better than what it has loses none of the
    sets that are worked out; a node may have better ones beyond those.
    """

    def __init__(self, fleet: Fleet, count: int, appetite: Appetite | None, own: int) -> None:
        self._fleet, self._count, self._appetite, self._own = fleet, count, appetite, own
        self._known: dict[int, dict[tuple[int, ...], list[DeviceSet]]] = {}
        """Of each node its sets by the rows of the devices of which they are made."""
        self._seen = len(fleet.moved)
        columns = fleet.settled()
        self.share = columns.nth_best(fleet.offer(appetite, own).exact().shares, columns.takes, count)
        """The least of the `count` best shares of each node; below 0 where there are fewer."""
        self.free = columns.nth_best(columns.free, columns.takes, count)
        self.keys = np.where(self.share >= 0.0, key_of(count * self.share, self.share), NEVER)
        """Of each node its best set's, or a bound of it."""

    def refresh(self) -> None:
        """Takes into account what was added since."""
        moved = self._fleet.moved
        if self._seen == len(moved):
            return
        columns, shares = self._fleet.settled(), self._shares
        for number in set(moved[self._seen :]):
            self._known.pop(number, None)
            taking = self._taking(number)
            enough = len(taking) >= self._count
            self.share[number] = sorted(shares[state.row] for state in taking)[-self._count] if enough else NEVER
            self.free[number] = sorted(columns.free[state.row] for state in taking)[-self._count] if enough else NEVER
            share = self.share[number]
            self.keys[number] = key_of(self._count * share, share) if enough else NEVER
        self._seen = len(moved)

    def taking(self, number: int) -> list[DeviceState]:
        """The node's devices that take one more, in the order in which sets are made of them."""
        return _ordered(self._taking(number), self._shares)

    def _taking(self, number: int) -> list[DeviceState]:
        node, takes = self._fleet.node(number), self._fleet.settled().takes
        return [state for state in node.rows if takes[state.row]] if node.free_slots >= self._count else []

    @property
    def _shares(self) -> Numbers:
        return self._fleet.offer(self._appetite, self._own).exact().shares

    def known(self, number: int) -> bool:
        """Whether the node's sets have been worked out."""
        return number in self._known

    def of_node(self, number: int) -> list[DeviceSet]:
        """The node's sets, best first. That they are worked out makes its bound exact."""
        known = number in self._known
        sets = self._made(number, self.taking(number))
        if not known:
            self.keys[number] = sets[0].key if sets else NEVER
        return sets

    def of_able(self, number: int, memory: int, least: float) -> list[DeviceSet]:
        """The sets of those of its devices that can give so much by themselves, where others crowd these out."""
        taking, shares = self.taking(number), self._shares
        able = [state for state in taking if state.free >= memory and shares[state.row] >= least]
        return self._made(number, able) if self._count <= len(able) < len(taking) else []

    def _made(self, number: int, devices: Sequence[DeviceState]) -> list[DeviceSet]:
        known = self._known.setdefault(number, {})
        rows = tuple(state.row for state in devices)
        if rows not in known:
            sets = [self._set(found) for found in islice(aligned(self._fleet, devices, self._count), _SETS_PER_NODE)]
            known[rows] = sorted((one for one in sets if one), key=lambda one: -one.key)
        return known[rows]

    def _set(self, devices: tuple[DeviceState, ...]) -> DeviceSet | None:
        impact = self._fleet.impact(devices, self._own)
        if impact.broken is not None:
            return None
        fraction = self._fleet.newcomer(devices, self._own, self._appetite).fraction
        key = float(key_of(impact.gain(fraction * self._count), fraction))
        return DeviceSet(key, fraction, min(state.free for state in devices), impact.priority, devices)


def best_sets(request: Request, fleet: Fleet, policy: Policy) -> list[Candidate]:
    """Sets that fit, the best among them."""
    if request.barred:
        return []
    sets = fleet.sets(request.job.devices, request.appetite, request.job.memory, Sets)
    keys, memory = _bounds(request, fleet, sets), request.job.memory
    found: list[Candidate] = []
    best = NEVER
    while len(keys):
        number = int(keys.argmax())
        if keys[number] <= best or keys[number] == NEVER:
            break
        if not sets.known(number):
            sets.of_node(number)
            keys[number] = min(keys[number], sets.keys[number])
            continue
        keys[number] = NEVER
        candidate = _best(request, fleet, sets.of_node(number), policy) or _best(
            request, fleet, sets.of_able(number, memory, request.least()), policy
        )
        if candidate is not None:
            found.append(candidate)
            best = max(best, float(key_of(candidate.gain, candidate.prediction.fraction)))
    return found


def _bounds(request: Request, fleet: Fleet, sets: Sets) -> Numbers:
    """The nodes' keys, without those that cannot have a place for the job.

    With rates a node's is no more than what its fastest device would make of its best shares.
    """
    sets.refresh()
    possible = (sets.share >= request.least()) & (sets.free >= request.job.memory)
    eligible = fleet.eligible(request.job.constraints)
    if len(eligible) < fleet.open_nodes:
        possible &= np.isin(np.arange(len(possible)), list(eligible))
    for name in request.avoided:
        if name in fleet.number:
            possible[fleet.number[name]] = False
    keys = sets.keys
    if request.rates:
        rates = fleet.settled().largest(fleet.rates(request.rates))
        shares = np.maximum(sets.share, 0.0)
        keys = np.minimum(keys, key_of(request.job.devices * shares * rates, shares))
    return np.where(possible, keys, NEVER)


def _best(request: Request, fleet: Fleet, sets: Sequence[DeviceSet], policy: Policy) -> Candidate | None:
    """The best of these sets that fits the job."""
    looked_at = (evaluate(request, fleet, one.devices, policy) for one in sets if _may_fit(request, one))
    fits = (candidate for candidate in looked_at if not candidate.refusal)
    # The order of the sets is that of their gains, unless some of them are on faster devices than others.
    return min(fits, key=lambda candidate: candidate.rank, default=None) if request.rates else next(fits, None)


def _may_fit(request: Request, one: DeviceSet) -> bool:
    job = request.job
    forbidden = one.key < 0.0 and one.payer >= job.priority
    return one.free >= job.memory and one.fraction >= request.least() and not forbidden


def in_order(devices: Sequence[DeviceState], fleet: Fleet, request: Request) -> list[DeviceState]:
    """Empty devices first, then shared and full ones, in each by what the newcomer gets, then by id."""
    return _ordered(devices, fleet.offer(request.appetite, request.job.memory).exact().shares)


def _ordered(devices: Sequence[DeviceState], shares: Numbers) -> list[DeviceState]:
    return sorted(devices, key=lambda state: (state.group, -shares[state.row], state.view.id))


def aligned(fleet: Fleet, devices: Sequence[DeviceState], count: int) -> Iterator[tuple[DeviceState, ...]]:
    """Sets in order whose devices are pairwise aligned; depth first."""

    def grow(chosen: tuple[DeviceState, ...], rest: Sequence[DeviceState]) -> Iterator[tuple[DeviceState, ...]]:
        """`rest`: those behind them that are aligned with all of them."""
        missing = count - len(chosen)
        for at in range(len(rest) - missing + 1):
            grown = (*chosen, rest[at])
            if missing == 1:
                yield grown
            else:
                yield from grow(grown, [other for other in rest[at + 1 :] if fleet.aligned(rest[at], other)])

    return grow((), devices)


def shown(request: Request, fleet: Fleet, node: NodeState) -> list[tuple[DeviceState, ...]]:
    """Sets of a node that explain why none fits: aligned ones that have room, or else the first devices."""
    count, devices = request.job.devices, in_order(node.open_devices(), fleet, request)
    roomy = [state for state in devices if state.free >= request.job.memory and node.takes(state)]
    return list(islice(aligned(fleet, roomy, count), _SETS_PER_NODE)) or [tuple(devices[:count])]
