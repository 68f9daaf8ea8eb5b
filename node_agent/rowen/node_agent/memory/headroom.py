"""How much of a device's memory is mapped for the online side ahead of its need: `decide`, pure.

Valve's MIAD (section 5), twice, but for how tau falls. *Headroom* H is in handles; those in use are part of it. A
*step* is a handle, or a 256th of a pool of more than 256. T is the time between two reclaims at the target rate.

1. Pressure: used/H has reached the threshold. H is multiplied by alpha, and raised by a step at least, as often as it
   takes until there is no pressure, or H is the whole pool.
2. Without pressure a step is released every interval tau, but nothing whose release would itself make pressure: a
   constant load changes nothing. Time at this lower end does not count towards the next release.
3. A *reclaim* is pressure that took memory from offline work, and what was taken within a second after it. Pressure
   that free memory could meet is none.
4. Each reclaim multiplies tau by the 7th root of 2; with time tau halves in each 8 T, but for time at the lower end:
   there a shorter tau would release no more, and a quiet night says nothing of the day. So tau stays where 7 reclaims
   come in 8 T, a little below the target: were there more for long, tau would grow without end. To take off a fixed
   amount instead, as Valve does, keeps further below the target: where tau is large that is next to nothing, and memory
   is kept for hours after a bad time (`benchmarks/headroom.py`).
5. Tau is at most what falls to T within T. Then H loses at most a step while the target allows one reclaim, and each
   reclaim raises H by a step, or to the whole pool: no load makes many more reclaims than the target allows.
"""

import math
from dataclasses import dataclass

from rowen.crds.service.online_service import HarvestMemory

RECLAIM_SECONDS = 1.0
"""Within which memory that is taken belongs to the reclaim before."""
STEPS = 256
"""Steps of a pool; also least values of tau in the time between two reclaims."""
START_STEPS = 16
"""Tau at the start, as a multiple of its least."""

# Above 1 / 0.9, so that by default one increase ends a pressure; chosen with `benchmarks/headroom.py`.
_ALPHA = 1.2
# So many reclaims double tau, and so many T without one halve it.
_DOUBLING_RECLAIMS = 7
_HALVING_TIMES = 8
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
    time: float
    """Of this decision."""
    taken: int
    reclaim: float = -math.inf
    """Start of the last one."""


@dataclass(frozen=True, slots=True)
class HeadroomDecision:
    """What holds until the next decision. Handles."""

    state: HeadroomState
    growth: int
    """H that a native thread may set at once, if pressure comes first."""
    reason: str


def reclaim_interval(settings: HarvestMemory) -> float:
    """T: the time between two reclaims at the target rate, in seconds."""
    return _HOUR_SECONDS / settings.target_reclaims_per_hour


def tau_max(settings: HarvestMemory) -> float:
    """Largest tau, in seconds."""
    return reclaim_interval(settings) * math.pow(2, 1 / _HALVING_TIMES)


def tau_min(settings: HarvestMemory) -> float:
    """Least tau, in seconds: with it the whole pool is released within the time between two reclaims."""
    return reclaim_interval(settings) / STEPS


def decide(state: HeadroomState | None, seen: Observation, now: float, settings: HarvestMemory) -> HeadroomDecision:
    """The next headroom, from the last state (None at the start) at `now` (seconds, monotonic clock)."""
    if state is None:
        state = _start(seen, now, settings)
    headroom, interval_start, reason = _headroom(state, seen, now, settings)
    lowest = headroom <= _least_headroom(min(seen.used, seen.pool), settings.pressure_threshold)
    tau, reclaim = _tau(state, seen, 0.0 if lowest else max(0.0, now - state.time), now, settings)
    return HeadroomDecision(
        state=HeadroomState(headroom, tau, interval_start, time=now, taken=seen.taken, reclaim=reclaim),
        growth=_grown(headroom, headroom, seen.pool, settings.pressure_threshold),
        reason=reason,
    )


def _start(seen: Observation, now: float, settings: HarvestMemory) -> HeadroomState:
    return HeadroomState(
        headroom=seen.headroom,
        tau=START_STEPS * tau_min(settings),
        interval_start=now,
        time=now,
        taken=seen.taken,
    )


def _tau(
    state: HeadroomState, seen: Observation, passed: float, now: float, settings: HarvestMemory
) -> tuple[float, float]:
    """The next tau, and the start of the last reclaim. `passed`: seconds that count towards its halving."""
    halvings = passed / (_HALVING_TIMES * reclaim_interval(settings))
    tau = _bounded(state.tau * math.pow(2, -halvings), settings)
    if seen.taken <= state.taken or now - state.reclaim < RECLAIM_SECONDS:
        return tau, state.reclaim
    return _bounded(tau * math.pow(2, 1 / _DOUBLING_RECLAIMS), settings), now


def _bounded(tau: float, settings: HarvestMemory) -> float:
    return min(tau_max(settings), max(tau_min(settings), tau))


def _headroom(state: HeadroomState, seen: Observation, now: float, settings: HarvestMemory) -> tuple[int, float, str]:
    """H, the start of its interval, and why."""
    tau, threshold = _bounded(state.tau, settings), settings.pressure_threshold
    used = min(seen.used, seen.pool)
    headroom = min(seen.pool, max(seen.headroom, used))
    if _pressed(used, headroom, threshold):
        grown = _grown(headroom, used, seen.pool, threshold)
        if grown == headroom:
            return grown, now, f"pressure: {used} of {headroom} handles in use, there are no more"
        return grown, now, f"pressure: {used} of {headroom} handles in use, raised to {grown}"
    if headroom > state.headroom:
        return headroom, now, f"raised from {state.headroom} to {headroom} handles since the last look"
    passed = math.floor((now - state.interval_start) / tau)
    due, spare = passed * _step(seen.pool), headroom - _least_headroom(used, threshold)
    if due >= spare:
        return headroom - spare, now, f"no pressure: {used} handles in use, {headroom - spare} is the least for them"
    if due <= 0:
        return headroom, state.interval_start, f"no pressure: {headroom} handles, until the interval has passed"
    start = state.interval_start + passed * tau
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
