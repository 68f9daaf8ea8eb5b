"""How idle devices will be, out of what was seen over several windows, and how sure that is.

The fraction of a minute is noisy, and the best of a thousand noisy minutes promises too much. So each window counts by
how well it foretells: a short one is noisy, a long one is old. The minute has a veto all the same: what was idle all
day and is busy now is not promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from rowen.crds.harvest.busy import BusyCells

_WANDER_PER_HOUR = 0.05
_WANDER_MOST = 0.15
_LONGER = 2.0
"""A window says something of its own if it is so many times as long as the one before."""


@dataclass(frozen=True, slots=True)
class IdleWindow:
    """Idle time over a window that ends now."""

    seconds: float
    """Length, above zero."""
    fraction: float


@dataclass(frozen=True, slots=True)
class IdleLevel:
    """What is expected of a device, or of a set in lockstep."""

    fraction: float
    deviation: float
    """Standard deviation of it."""


def bursts(busy: BusyCells | None) -> int:
    """Stretches in which it was busy; 0 where that is not known."""
    return (busy.bits & ~(busy.bits << 1)).bit_count() if busy is not None else 0


def sampling_deviation(idle: float, count: float) -> float:
    """Standard deviation of an idle fraction that was measured over `count` bursts and pauses, at least one.

    Of an alternating renewal process with exponential times: idle · busy · √(2 / count). Two bursts are added, one
    of each kind of time, so that a few seconds of silence are no certainty.
    """
    count = max(1.0, count)
    guess = (idle * count + 1.0) / (count + 2.0)
    return guess * (1.0 - guess) * sqrt(2.0 / count)


def wander(seconds: float) -> float:
    """How far the level itself moves within a window: a random walk, of 5 points in an hour and 15 at most."""
    return min(_WANDER_MOST, _WANDER_PER_HOUR * sqrt(seconds / 3600.0))


def idle_level(now: IdleWindow, count: int, longer: Sequence[IdleWindow] = ()) -> IdleLevel:
    """The mean of the windows, each weighted by one over its variance: sampling noise and wander.

    `now`: the report's window, with `count` bursts; what is longer goes with as many in the same time. It is the most
    that the mean may be, with two deviations of its noise: none where it was never idle. Without bursts to judge by one
    is assumed: that nothing was seen of a device for a few seconds is no certainty.
    """
    weights = total = longest = 0.0
    for window in (now, *longer):
        if window.seconds < _LONGER * longest:
            continue
        longest = window.seconds
        noise = sampling_deviation(window.fraction, max(1, count) * window.seconds / now.seconds)
        weight = 1.0 / (noise * noise + wander(window.seconds) ** 2)
        weights += weight
        total += weight * window.fraction
    # Concave in the fraction and 1 where that is: so more idle time never lowers what is promised.
    most = now.fraction + 2.0 * now.fraction * (1.0 - now.fraction) * sqrt(2.0 / max(1, count))
    return IdleLevel(min(most, total / weights), sqrt(1.0 / weights))
