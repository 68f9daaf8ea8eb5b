"""The SLO guard: how much may be harvested of a service that misses its objective because of it. Pure.

One step at a time, Full, Reduced, Stopped. A level stays for `DWELL_SECONDS` at least, until the requests that are
judged are its own. The way back is by time alone, since nothing can be seen of offline work that is not there: the wait
doubles with every step down, up to `LONGEST_SECONDS`, so that a service is neither harmed again and again nor left
without harvesting for ever.

Where too few requests were served without offline work to compare, the same steps make the comparison: at Stopped all
are. Where the service misses its objective there too, harvesting comes back without the wait, and while offline work is
always there the next comparison waits as a step up does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rowen.crds.latency_counts import RECENT_SECONDS
from rowen.crds.online_service import HarvestGuard, HarvestLevel, harvest_level
from rowen.kube.timestamps import rfc3339, unix_seconds
from rowen.operator.services.objective import Objective, Verdict, worst

Cause = Literal["Harvest", "Untested"]

DWELL_SECONDS = RECENT_SECONDS + 120.0
"""The window of the reports, and how late they may tell of it."""
FIRST_SECONDS = 900.0
"""From the first step down to the step up."""
LONGEST_SECONDS = 4 * 3600.0
FORGET_SECONDS = 12 * 3600.0
"""At Full, after which the steps down are forgotten."""
_MOST_STEPS = 16
_MOST_LETTERS = 1024
_DOWN: dict[HarvestLevel, HarvestLevel] = {"Full": "Reduced", "Reduced": "Stopped"}
_UP: dict[HarvestLevel, HarvestLevel] = {"Stopped": "Reduced", "Reduced": "Full"}


@dataclass(frozen=True, slots=True)
class Guard:
    """What was decided so far. `since` in Unix seconds; None: never a step."""

    level: HarvestLevel = "Full"
    since: float | None = None
    steps: int = 0
    cause: Cause = "Harvest"
    message: str = ""

    @property
    def wait_seconds(self) -> float:
        """From a step to the next step up, or to the next comparison."""
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** (self.steps - 1)) if self.steps else 0.0


def read_guard(stored: HarvestGuard | None, now: float) -> Guard:
    """What the status tells, as far as it can be: a time that cannot be read, or that lies ahead, is now."""
    if stored is None:
        return Guard()
    try:
        since = min(now, max(0.0, unix_seconds(stored.since)))
    except ValueError:
        since = now
    steps = min(_MOST_STEPS, max(0, stored.steps))
    cause: Cause = "Untested" if stored.cause == "Untested" else "Harvest"
    return Guard(harvest_level(stored.level), since, steps, cause, stored.message)


def written(guard: Guard) -> HarvestGuard | None:
    """What the status is to tell; None: nothing."""
    if guard.since is None:
        return None
    since = rfc3339(guard.since, "seconds")
    return HarvestGuard(level=guard.level, since=since, steps=guard.steps, cause=guard.cause, message=guard.message)


def decide(before: Guard, objectives: Iterable[Objective], now: float) -> Guard:
    """The guard as of now (Unix seconds): `before` itself, or one step from there with the reason."""
    lasted = float("inf") if before.since is None else now - before.since
    if before.level == "Full" and lasted >= FORGET_SECONDS:
        before = Guard()
    if lasted < DWELL_SECONDS:
        return before
    verdict, figures = worst(objectives)
    if before.level != "Stopped":
        if verdict is Verdict.HARVEST:
            return _down(before, "Harvest", figures, now)
        if verdict is Verdict.UNTESTED and (before.level != "Full" or lasted >= before.wait_seconds):
            return _down(before, "Untested", figures, now)
    if verdict is Verdict.SERVICE and before.cause == "Untested":
        return _up(before, f"not because of harvesting: {figures}", now)
    if lasted >= before.wait_seconds:
        return _up(before, f"tried again after {lasted / 60:.0f} min", now)
    return before


def _down(before: Guard, cause: Cause, figures: str, now: float) -> Guard:
    return Guard(_DOWN[before.level], now, min(_MOST_STEPS, before.steps + 1), cause, figures[:_MOST_LETTERS])


def _up(before: Guard, message: str, now: float) -> Guard:
    if before.level == "Full":
        return before
    return replace(before, level=_UP[before.level], since=now, message=message[:_MOST_LETTERS])
