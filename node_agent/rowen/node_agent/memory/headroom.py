"""How much of a device's memory is mapped for the online side ahead of its need: `decide`, pure.

Multiplicative increase, additive decrease, twice. *Headroom* H is in handles; those in use are part of it. A *step* is
a handle, or a 256th of a pool of more than 256.

1. Pressure: used/H has reached the threshold. H is multiplied by alpha, and raised by a step at least, as often as it
   takes until there is no pressure, or H is the whole pool.
2. Without pressure a step is released every interval tau, but nothing whose release would itself make pressure: a
   constant load changes nothing. Time at this lower end does not count towards the next release.
3. A *reclaim* is pressure that took memory from offline work, and what was taken within a second after it. Pressure
   that free memory could meet is none.
4. Tau is looked at once in each time that lies between two reclaims at the target rate. With more than six reclaims
   over the last six such times tau is multiplied by beta, unless none of them is new since the last look: what was
   done about them already is not done again. With six or fewer it is lowered by delta.
5. Tau is at most that time itself. Then H loses at most a step while the target allows one reclaim, and each reclaim
   raises H by a step, or to the whole pool: no load makes many more reclaims than the target allows.
"""

import math
from dataclasses import dataclass, replace

from rowen.crds.online_service import HarvestMemory

RECLAIM_SECONDS = 1.0
"""Within which memory that is taken belongs to the reclaim before."""
WINDOW_RECLAIMS = 6
"""Reclaims that the target allows in the window over which they are counted."""
STEPS = 256
"""Steps of a pool; also least values of tau in its largest."""
START_STEPS = 16
"""Tau at the start, as a multiple of its least."""

# Above 1 / 0.9, so that by default one increase ends a pressure; both were chosen with `benchmarks/headroom.py`.
_ALPHA = 1.2
_BETA = 2.0
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Observation:
    """A device's memory now. Handles."""

    pool: int
    """All that the online side may ever have; at least one."""
    headroom: int
    """H in force: what was decided last, or what a native thread has raised it to since; 0 at the start."""
    used: int
    """In use by the online side, or asked for by it."""
    taken: int
    """Taken from offline work for engines so far, counted up; not what was taken for pods' fixed parts."""


@dataclass(frozen=True, slots=True)
class HeadroomState:
    """What is kept from one decision to the next. Times in seconds, monotonic clock."""

    headroom: int
    tau: float
    """Interval between two releases, in seconds."""
    interval_start: float
    """Start of the interval that ends with the next release."""
    tau_time: float
    """When tau was looked at last."""
    taken: int
    reclaims: tuple[float, ...] = ()
    """Start of the latest ones, oldest first: one more than the window allows."""


@dataclass(frozen=True, slots=True)
class HeadroomDecision:
    """What holds until the next decision. Handles."""

    state: HeadroomState
    growth: int
    """H that a native thread may set at once, if pressure comes first."""
    reason: str


def tau_max(settings: HarvestMemory) -> float:
    """Largest tau, and the time between two looks at it, in seconds: that between two reclaims at the target rate."""
    return _HOUR_SECONDS / settings.target_reclaims_per_hour


def tau_min(settings: HarvestMemory) -> float:
    """Least tau, and delta, in seconds: with it the whole pool is released within one `tau_max`."""
    return tau_max(settings) / STEPS


def decide(state: HeadroomState | None, seen: Observation, now: float, settings: HarvestMemory) -> HeadroomDecision:
    """The next headroom, from the last state (None at the start) at `now` (seconds, monotonic clock)."""
    if state is None:
        state = _start(seen, now, settings)
    state = _with_tau(_with_reclaims(state, seen, now), now, settings)
    headroom, interval_start, reason = _headroom(state, seen, now, settings.pressure_threshold)
    return HeadroomDecision(
        state=replace(state, headroom=headroom, interval_start=interval_start),
        growth=_grown(headroom, headroom, seen.pool, settings.pressure_threshold),
        reason=reason,
    )


def _start(seen: Observation, now: float, settings: HarvestMemory) -> HeadroomState:
    return HeadroomState(
        headroom=seen.headroom,
        tau=START_STEPS * tau_min(settings),
        interval_start=now,
        tau_time=now,
        taken=seen.taken,
    )


def _with_reclaims(state: HeadroomState, seen: Observation, now: float) -> HeadroomState:
    reclaims = state.reclaims
    if seen.taken > state.taken and (not reclaims or now - reclaims[-1] >= RECLAIM_SECONDS):
        reclaims = (*reclaims, now)
    return replace(state, taken=seen.taken, reclaims=reclaims[-WINDOW_RECLAIMS - 1 :])


def _with_tau(state: HeadroomState, now: float, settings: HarvestMemory) -> HeadroomState:
    least, most = tau_min(settings), tau_max(settings)
    tau, tau_time = state.tau, state.tau_time
    looks = math.floor((now - tau_time) / most)
    if looks >= 1:
        if not _over_target(state.reclaims, now - WINDOW_RECLAIMS * most):
            tau -= looks * least
        elif state.reclaims[-1] > tau_time:
            tau *= _BETA
        tau_time = now
    return replace(state, tau=min(most, max(least, tau)), tau_time=tau_time)


def _over_target(reclaims: tuple[float, ...], since: float) -> bool:
    return len(reclaims) > WINDOW_RECLAIMS and reclaims[0] > since


def _headroom(state: HeadroomState, seen: Observation, now: float, threshold: float) -> tuple[int, float, str]:
    """H, the start of its interval, and why."""
    used = min(seen.used, seen.pool)
    headroom = min(seen.pool, max(seen.headroom, used))
    if _pressed(used, headroom, threshold):
        grown = _grown(headroom, used, seen.pool, threshold)
        if grown == headroom:
            return grown, now, f"pressure: {used} of {headroom} handles in use, there are no more"
        return grown, now, f"pressure: {used} of {headroom} handles in use, raised to {grown}"
    if headroom > state.headroom:
        return headroom, now, f"raised from {state.headroom} to {headroom} handles since the last look"
    passed = math.floor((now - state.interval_start) / state.tau)
    due, spare = passed * _step(seen.pool), headroom - _least_headroom(used, threshold)
    if due >= spare:
        return headroom - spare, now, f"no pressure: {used} handles in use, {headroom - spare} is the least for them"
    if due <= 0:
        return headroom, state.interval_start, f"no pressure: {headroom} handles, until the interval has passed"
    start = state.interval_start + passed * state.tau
    return headroom - due, start, f"no pressure: {due} handles released, {headroom - due} left"


def _step(pool: int) -> int:
    return max(1, math.ceil(pool / STEPS))


def _pressed(used: int, headroom: int, threshold: float) -> bool:
    return headroom < 1 or used / headroom >= threshold


def _grown(headroom: int, used: int, pool: int, threshold: float) -> int:
    while headroom < pool and _pressed(used, headroom, threshold):
        headroom = min(pool, max(math.ceil(_ALPHA * headroom), headroom + _step(pool)))
    return headroom


def _least_headroom(used: int, threshold: float) -> int:
    """Least H without pressure. The quotient is off by one at most; a comparison never is."""
    headroom = math.floor(used / threshold)
    while _pressed(used, headroom, threshold):
        headroom += 1
    return headroom
