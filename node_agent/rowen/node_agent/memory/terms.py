"""On what terms each process has memory of a device's pool: `decide`, pure.

1. The *fixed part* is what the pods on the device have for themselves. It is kept from all processes.
2. A pod's processes share what the pod may have of the pool in equal parts. Nothing is guaranteed to offline work.
3. An engine's process has its headroom (`headroom.py`), within its part. It begins with a `FIRST_PART`-th of that.
4. While a process's pod is not known, nothing is said about it. An offline one stays with nothing, or with what it has
   held since the last agent. An engine gets what it wants (the pool sees to that by itself), and nothing ahead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory import headroom
from rowen.node_agent.memory.headroom import HeadroomState, Observation
from rowen.node_agent.memory.pool_status import Kind, MemberStatus, PoolStatus

FIRST_PART = 16


@dataclass(frozen=True, slots=True)
class PodTerms:
    """What is known of a pod with processes that have memory of the pool."""

    uid: str
    pool_bytes: int
    """Most that it may have of the pool."""
    settings: HarvestMemory
    """Of an engine."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A device's pool, and who has memory of it."""

    now: float
    """Seconds, monotonic clock."""
    pool: PoolStatus
    fixed_bytes: int
    """What the pods on the device have for themselves."""
    pods: Mapping[int, PodTerms]
    """By member; one that is missing is of a pod that is not known yet."""
    states: Mapping[int, HeadroomState]
    """Of engines' processes, by member."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What an engine's process shall own, in handles; see `Pool.bound` and `Pool.demand`."""

    bound: int
    pressures: int
    target: int
    growth: int
    threshold: float
    state: HeadroomState | None
    """To be kept when the demand was accepted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds until the next decision, in handles."""

    fixed: int
    limits: Mapping[int, int]
    """Of offline processes, by member."""
    demands: Mapping[int, Demand]
    """Of engines' processes, by member."""


def decide(snapshot: MemorySnapshot) -> Terms:
    """The terms of every process whose pod is known."""
    pool = snapshot.pool
    fixed = min(pool.total, -(-snapshot.fixed_bytes // pool.handle_bytes))
    limits: dict[int, int] = {}
    demands: dict[int, Demand] = {}
    for pod, members in _by_pod(snapshot):
        handles = min(pod.pool_bytes // pool.handle_bytes, pool.total)
        for member, part in zip(members, split(handles, len(members)), strict=True):
            most = min(part, member.capacity)
            if member.kind is Kind.OFFLINE:
                limits[member.number] = most
            else:
                demands[member.number] = _demand(snapshot, pod, member, min(most, pool.total - fixed))
    return Terms(fixed, limits, demands)


def split(handles: int, parts: int) -> list[int]:
    """Equal parts; the first ones have one more where it does not come out even."""
    return [handles // parts + (index < handles % parts) for index in range(parts)]


def _by_pod(snapshot: MemorySnapshot) -> list[tuple[PodTerms, Sequence[MemberStatus]]]:
    found: dict[tuple[str, Kind], tuple[PodTerms, list[MemberStatus]]] = {}
    for member in snapshot.pool.members:
        pod = snapshot.pods.get(member.number)
        if pod is not None:
            found.setdefault((pod.uid, member.kind), (pod, []))[1].append(member)
    return list(found.values())


def _demand(snapshot: MemorySnapshot, pod: PodTerms, member: MemberStatus, bound: int) -> Demand:
    threshold = pod.settings.pressure_threshold
    if bound < 1:
        return Demand(bound, member.pressures, target=0, growth=0, threshold=threshold, state=None)
    state = snapshot.states.get(member.number)
    first = math.ceil(bound / FIRST_PART) if state is None else 0
    seen = Observation(
        pool=bound,
        headroom=min(bound, max(member.target, first)),
        used=max(member.used, member.wanted),
        taken=snapshot.pool.handles_for_engines,
    )
    decision = headroom.decide(state, seen, snapshot.now, pod.settings)
    return Demand(
        bound=bound,
        pressures=member.pressures,
        target=decision.state.headroom,
        growth=decision.growth,
        threshold=threshold,
        state=decision.state,
    )
