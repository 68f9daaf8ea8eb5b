"""Chooses where a job goes: the greedy rule, and the reason for every candidate."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from rowen.scheduler.backoff import Backoff
from rowen.scheduler.fleet import EMPTY, FULL, SHARED, Claim, DeviceState, Fleet
from rowen.scheduler.policy import Policy
from rowen.scheduler.prediction import Prediction
from rowen.scheduler.snapshot import JobView

EXPLAINED = 16
"""Most candidates in an explanation: the API's limit."""
_ALTERNATIVES = 8
_SETS_PER_NODE = 8
_NODES_AFTER_FIT = 16
_LEAST_FRACTION = 0.005


@dataclass(frozen=True, slots=True)
class Candidate:
    """Devices on which a job could run, with the factors and why not, or why."""

    node: str
    devices: tuple[str, ...]
    prediction: Prediction
    refusal: str
    """Which factor decided against it; empty when the job fits."""
    gain: float = 0.0
    """Device time that is harvested in addition, in devices."""
    chosen: bool = False

    @property
    def rank(self) -> tuple[bool, float, float, str, tuple[str, ...]]:
        """Best first: what fits, then most harvest, then highest prediction, then by name."""
        return bool(self.refusal), -self.gain, -self.prediction.fraction, self.node, self.devices

    @property
    def place(self) -> str:
        """Node and devices, for people."""
        return f"{self.node}/{'+'.join(self.devices)}"


@dataclass(frozen=True, slots=True)
class Request:
    """A job that looks for a place."""

    job: JobView
    margin: float
    backoffs: Mapping[str, Backoff]
    """Its back-offs, by node."""
    now: float

    @property
    def need(self) -> float:
        """Least predicted fraction that is accepted."""
        return 0.0 if self.job.sla is None else self.job.sla + self.margin


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates that were looked at, best first; the first is chosen if any is."""

    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate | None:
        """Where the job goes, or None."""
        return next((candidate for candidate in self.candidates if not candidate.refusal), None)


def choose(request: Request, fleet: Fleet, policy: Policy) -> Choice:
    """The candidate that adds most harvested device time and keeps every promise."""
    found = _singles(request, fleet, policy) if request.job.devices == 1 else _sets(request, fleet, policy)
    found.sort(key=lambda candidate: candidate.rank)
    found = found[:EXPLAINED]
    if len(found) < EXPLAINED:
        found += islice(_closed(fleet), EXPLAINED - len(found))
    return Choice(tuple(found))


def _singles(request: Request, fleet: Fleet, policy: Policy) -> list[Candidate]:
    """Walks the devices in rank order. Within a group predictions only fall, so each walk ends early."""
    found: list[Candidate] = []
    least = max(request.need, _LEAST_FRACTION)
    placed = False
    for group in (EMPTY, SHARED, FULL):
        for state in fleet.group(group):
            explained = len(found) >= EXPLAINED
            if (placed and len(found) >= _ALTERNATIVES) or (explained and group == FULL):
                return found
            if explained and state.view.idle / (len(state.claims) + 1) < least:
                break
            if explained and state.free < request.job.memory:
                continue
            candidate = evaluate(request, fleet, (state,), policy)
            placed = placed or not candidate.refusal
            if not explained or not candidate.refusal:
                found.append(candidate)
    return found


def _sets(request: Request, fleet: Fleet, policy: Policy) -> list[Candidate]:
    """Sets of devices of one node, nodes with the highest bound first.

    It ends when no further node can beat the best found, or a few nodes after the first that fits.
    """
    count = request.job.devices
    found: list[Candidate] = []
    best, since_fit = 0.0, 0
    for bound, states in _bounds(fleet, count):
        explained = len(found) >= EXPLAINED
        if explained and (bound <= best or bound < request.need or since_fit >= _NODES_AFTER_FIT):
            break
        sets = list(islice(_aligned(request, fleet, states, count, policy), _SETS_PER_NODE))
        if not sets and not explained:
            sets = [tuple(states[:count])]
        candidates = [evaluate(request, fleet, devices, policy) for devices in sets]
        fitting = [candidate.gain / count for candidate in candidates if not candidate.refusal]
        found += candidates if fitting or not explained else []
        best = max([best, *fitting])
        since_fit += best > 0.0
    return found


def _bounds(fleet: Fleet, count: int) -> Iterator[tuple[float, list[DeviceState]]]:
    """Nodes with enough open devices, best first; each with its devices and the most that `count` of them can give."""
    bounds = []
    for states in fleet.open_nodes(count):
        shares = sorted((state.view.idle / (len(state.claims) + 1) for state in states), reverse=True)
        bounds.append((-shares[count - 1], states[0].view.node, states))
    bounds.sort(key=lambda bound: bound[:2])
    for least, _, states in bounds:
        yield -least, sorted(states, key=DeviceState.rank)


def _aligned(
    request: Request, fleet: Fleet, states: list[DeviceState], count: int, policy: Policy
) -> Iterator[tuple[DeviceState, ...]]:
    """Sets in rank order whose devices are pairwise aligned and have room; depth first."""
    roomy = [state for state in states if state.free >= request.job.memory and len(state.claims) < state.slots]

    def grow(chosen: tuple[DeviceState, ...], start: int) -> Iterator[tuple[DeviceState, ...]]:
        if len(chosen) == count:
            yield chosen
            return
        for at in range(start, len(roomy) - (count - len(chosen)) + 1):
            if all(fleet.alignment(state, roomy[at]) >= policy.alignment_threshold for state in chosen):
                yield from grow((*chosen, roomy[at]), at + 1)

    return grow((), 0)


def _closed(fleet: Fleet) -> Iterator[Candidate]:
    """Devices that take no job at all, with the reason."""
    for (node, id_), reason in fleet.closed:
        yield Candidate(node, (id_,), fleet.predict([fleet.devices[node, id_]], 0), reason)


def evaluate(request: Request, fleet: Fleet, devices: tuple[DeviceState, ...], policy: Policy) -> Candidate:
    """The factors of one candidate, and the first reason against it."""
    prediction = fleet.predict(devices, request.job.memory)
    node = devices[0].view.node
    ids = tuple(sorted(state.view.id for state in devices))
    refusal = _refusal(request, fleet, devices, prediction, policy)
    gain = 0.0
    if not refusal:
        claim = claim_of(request.job, node, ids, request.need)
        neighbours = fleet.neighbours(devices)
        before = {other.key: fleet.fraction(other) for other in neighbours}
        undo = fleet.add(claim)
        gain = prediction.fraction * len(ids)
        for other in neighbours:
            after = fleet.fraction(other)
            gain -= (before[other.key] - after) * len(other.devices)
            if after < other.need:
                refusal = refusal or f"{other.label} would fall to {after:.2f} < its SLA with margin {other.need:.2f}"
        undo()
    return Candidate(node, ids, prediction, refusal, round(gain, 9))


def _refusal(
    request: Request, fleet: Fleet, devices: tuple[DeviceState, ...], prediction: Prediction, policy: Policy
) -> str:
    node = fleet.nodes[devices[0].view.node]
    backoff = request.backoffs.get(node.view.name)
    if backoff is not None and request.now < backoff.until:
        until = datetime.fromtimestamp(backoff.until, UTC).strftime("%H:%M:%SZ")
        return f"back-off until {until} after {backoff.reason} (eviction {backoff.count} from this node)"
    if prediction.alignment < policy.alignment_threshold:
        return f"alignment {prediction.alignment:.2f} < {policy.alignment_threshold:.2f}"
    if prediction.memory == 0.0:
        tightest = min(devices, key=lambda state: state.free)
        have, pool = _gib(max(0, tightest.free)), _gib(tightest.view.memory)
        return f"memory 0: needs {_gib(request.job.memory)}, {have} of {pool} free on {tightest.view.id}"
    full = next((state for state in devices if len(state.claims) >= state.slots), None)
    if full is not None or node.free_slots < len(devices):
        return f"no free harvest slot ({max(0, node.free_slots)} of {node.view.slots} free on the node)"
    return _shortfall(request, prediction)


def _shortfall(request: Request, prediction: Prediction) -> str:
    """The smallest factor, when the product is too small."""
    fraction = prediction.fraction
    if request.job.sla is None:
        return "" if fraction >= _LEAST_FRACTION else f"idle {prediction.idle:.3f}: nothing to harvest"
    if fraction >= request.need:
        return ""
    bar = f"SLA {request.job.sla:.2f} + margin {request.margin:.2f}"
    if prediction.sharing == 1.0:
        return f"idle {prediction.idle:.2f} < {bar}"
    factors = [("idle", prediction.idle), ("sharing", prediction.sharing)]
    (first, low), (second, high) = sorted(factors, key=lambda factor: factor[1])
    return f"{first} {low:.2f} x {second} {high:.2f} = {fraction:.2f} < {bar}"


def claim_of(job: JobView, node: str, devices: tuple[str, ...], need: float) -> Claim:
    """What the job holds once it is placed there. The kubelet may have put its slots on fewer devices."""
    memory = job.memory * job.devices // max(1, len(devices))
    return Claim(job.uid, job.label, node, devices, job.devices, memory, need)


def _gib(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.2f}Gi"
