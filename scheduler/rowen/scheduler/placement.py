"""Chooses where a job goes: the greedy rule, and the reason for every candidate."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from rowen.scheduler.backoff import EVERY_NODE, Backoff
from rowen.scheduler.eligibility import exclusion
from rowen.scheduler.fleet import EMPTY, FULL, SHARED, Claim, DeviceState, Fleet, Impact
from rowen.scheduler.memory_words import memory_refusal
from rowen.scheduler.policy import Policy
from rowen.scheduler.prediction import Prediction
from rowen.scheduler.snapshot import JobView

EXPLAINED = 16
"""Most candidates in an explanation: the API's limit."""
_ALTERNATIVES = 8
_SETS_PER_NODE = 8
_NODES_AFTER_FIT = 16
_AFTER_VAIN_FIT = 64
"""Most places with a fit that adds nothing (or on one device: lowers the total) before a search is content."""
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
    """Device time that is harvested in addition, in devices; 0 when the job does not fit."""
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
    """Those that have not ended, by node or `EVERY_NODE`."""

    @property
    def barred(self) -> bool:
        """Whether no node will do."""
        return EVERY_NODE in self.backoffs

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
    eligible = fleet.eligible(request.job.constraints)
    search = _singles if request.job.devices == 1 else _sets
    found = sorted(search(request, fleet, eligible, policy), key=lambda candidate: candidate.rank)
    others = islice(_excluded(request, fleet, eligible, len(found)), max(0, EXPLAINED - len(found)))
    told = (*found[:EXPLAINED], *(evaluate(request, fleet, devices, policy) for devices in others))
    return Choice((*told, *islice(_closed(fleet), EXPLAINED - len(told))))


def _excluded(
    request: Request, fleet: Fleet, eligible: Collection[str], looked_at: int
) -> Iterator[tuple[DeviceState, ...]]:
    """Places where the job's pod cannot run, in order; on one device up to the first that could still be looked at."""
    count = request.job.devices
    if count > 1:
        sets = (tuple(states[:count]) for states in fleet.open_nodes(count))
        yield from (devices for devices in sets if devices[0].view.node not in eligible)
        return
    for state in fleet.ranked():
        if state.view.node not in eligible:
            yield (state,)
        elif looked_at == 0:
            return
        else:
            looked_at -= 1


def _singles(request: Request, fleet: Fleet, eligible: frozenset[str], policy: Policy) -> list[Candidate]:
    """Walks the devices in rank order. Within a group predictions only fall, so each walk ends early."""
    found: list[Candidate] = []
    least = max(request.need, _LEAST_FRACTION)
    placed, vain = False, 0
    for group in (EMPTY, SHARED, FULL):
        for state in fleet.group(group, eligible):
            explained = len(found) >= EXPLAINED
            enough = (placed and len(found) >= _ALTERNATIVES) or vain >= _AFTER_VAIN_FIT
            if enough or (explained and (group == FULL or request.barred)):
                return found
            share = state.view.idle / (len(state.claims) + 1)
            if explained and share < least:
                break
            if explained and _hopeless(request.job, fleet, state, share):
                continue
            candidate = evaluate(request, fleet, (state,), policy)
            found.append(candidate)
            if not candidate.refusal:
                placed = placed or candidate.gain >= 0.0
                vain += candidate.gain < 0.0
    return found


def _hopeless(job: JobView, fleet: Fleet, state: DeviceState, share: float) -> bool:
    """What can be told of a device without the work of a full evaluation. `share`: predicted fraction."""
    impact = fleet.impact((state,))
    return state.free < job.memory or impact.forbids(impact.gain(share), job.priority)


def _sets(request: Request, fleet: Fleet, eligible: frozenset[str], policy: Policy) -> list[Candidate]:
    """Sets of devices of one node, nodes with the highest bound first.

    It ends when no further node can beat the best found, or a few nodes after the first that fits.
    """
    count = request.job.devices
    found: list[Candidate] = []
    best, since_fit, vain = 0.0, 0, 0
    for bound, states in _bounds(fleet, count, eligible):
        explained = len(found) >= EXPLAINED
        enough = since_fit >= _NODES_AFTER_FIT or vain >= _AFTER_VAIN_FIT or request.barred
        if explained and (bound <= best or bound < request.need or enough):
            break
        sets = list(islice(_aligned(request, fleet, states, count, policy), _SETS_PER_NODE))
        if not sets and not explained:
            sets = [tuple(states[:count])]
        candidates = [evaluate(request, fleet, devices, policy) for devices in sets]
        fitting = [candidate.gain / count for candidate in candidates if not candidate.refusal]
        found += candidates
        best = max([best, *fitting])
        since_fit += best > 0.0
        vain += bool(fitting) and best == 0.0
    return found


def _bounds(fleet: Fleet, count: int, eligible: Collection[str]) -> Iterator[tuple[float, list[DeviceState]]]:
    """Eligible nodes with enough open devices, best first, with them and the most that `count` of them can give."""
    bounds = []
    for states in fleet.open_nodes(count):
        if states[0].view.node in eligible:
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
    if refusal:
        return Candidate(node, ids, prediction, refusal)
    impact = fleet.impact(devices)
    gain = impact.gain(prediction.fraction * len(ids))
    refusal = _broken_promise(impact) or _lower_total(impact, gain, request.job.priority)
    return Candidate(node, ids, prediction, refusal, 0.0 if refusal else gain)


def _broken_promise(impact: Impact) -> str:
    for fall in impact.falls:
        if fall.after < fall.claim.need:
            return f"{fall.claim.label} would fall to {fall.after:.2f} < its SLA with margin {fall.claim.need:.2f}"
    return ""


def _lower_total(impact: Impact, gain: float, priority: int) -> str:
    if not impact.forbids(gain, priority):
        return ""
    worst = max(impact.falls, key=lambda fall: fall.loss)
    return (
        f"would lower the total by {-gain:.2f} devices: "
        f"{worst.claim.label} would fall from {worst.before:.2f} to {worst.after:.2f}"
    )


def _refusal(
    request: Request, fleet: Fleet, devices: tuple[DeviceState, ...], prediction: Prediction, policy: Policy
) -> str:
    node = fleet.nodes[devices[0].view.node]
    excluded = exclusion(node.view, request.job.constraints)
    if excluded:
        return excluded
    waits = _backed_off(request, node.view.name)
    if waits:
        return waits
    if prediction.alignment < policy.alignment_threshold:
        return f"alignment {prediction.alignment:.2f} < {policy.alignment_threshold:.2f}"
    if prediction.memory == 0.0:
        tightest = min(devices, key=lambda state: state.free)
        return memory_refusal(request.job, tightest.view, tightest.free)
    full = next((state for state in devices if len(state.claims) >= state.slots), None)
    if full is not None or node.free_slots < len(devices):
        return f"no free harvest slot ({max(0, node.free_slots)} of {node.view.slots} free on the node)"
    return _shortfall(request, prediction)


def _backed_off(request: Request, node: str) -> str:
    for place, name in ((EVERY_NODE, "any node"), (node, "this node")):
        backoff = request.backoffs.get(place)
        if backoff is not None:
            until = datetime.fromtimestamp(backoff.until, UTC).strftime("%H:%M:%SZ")
            return f"back-off until {until} after {backoff.reason} (eviction {backoff.count} from {name})"
    return ""


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
    return Claim(job.uid, job.label, node, devices, job.devices, memory, need, job.priority)
