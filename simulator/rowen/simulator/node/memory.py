"""What is left of a device's pool for offline work, with the agent's headroom policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.headroom import HeadroomState, Observation, decide
from rowen.node_agent.memory.terms import FIRST_PART


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool of a device, in handles."""

    total: int
    bound: int
    """Most that the engine may have of it."""
    settings: HarvestMemory


@dataclass(frozen=True, slots=True)
class Mapped:
    """Where the headroom stands after some steps."""

    state: HeadroomState | None = None
    taken: int = 0
    """Handles taken from offline work so far."""


@dataclass(frozen=True, slots=True)
class Left:
    """The pool over some steps."""

    available: list[int]
    """Handles that offline work could have, for each step."""
    reclaims: int
    """Steps in which memory was taken from offline work."""
    end: Mapped


def left(pool: Pool, peaks: Sequence[int], start: float, step_seconds: float, before: Mapped) -> Left:
    """Decides once a step, on the most that the engine used in it. `peaks` in handles, `start` in seconds.

    Offline work is taken to hold all that the engine leaves, so every rise of the headroom takes memory from it: the
    policy meets at least as many reclaims as with real tenants. The agent decides more often; a peak shorter than a
    step counts for the whole step.
    """
    state, taken, reclaims = before.state, before.taken, 0
    available: list[int] = []
    bound = min(pool.bound, pool.total)
    if bound < 1:
        return Left([pool.total] * len(peaks), 0, before)
    for index, used in enumerate(peaks, start=1):
        held = state.headroom if state is not None else ceil(bound / FIRST_PART)
        seen = Observation(bound, held, min(used, bound), taken)
        state = decide(state, seen, start + index * step_seconds, pool.settings).state
        taken += max(0, state.headroom - held)
        reclaims += state.headroom > held
        # What was lent for a part of the step was lent at the least for all of it.
        available.append(pool.total - max(held, state.headroom))
    return Left(available, reclaims, Mapped(state, taken))
