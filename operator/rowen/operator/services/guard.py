"""The SLO guard: how much may be harvested of a service that misses its objective because of it. Pure.

One window alone changes nothing: it is noted, and the next one decides. Then one step at a time: Full, Reduced,
Stopped; where no device has two tenants beside its engine, Reduced would change nothing and is left out on the way
down: those who ride in an engine have the same together, however many they are. A level stays for `DWELL_SECONDS` at
least, until the requests that are judged are its own. The way back is by time alone, and by Reduced, since nothing can
be seen of offline work that is not there: the wait doubles with every step down, up to `LONGEST_SECONDS`, so that a
service is neither harmed again and again nor left without harvesting for ever.

Where too few requests were served without offline work to compare, the same steps make the comparison: at Stopped all
are. Where the service misses its objective there too, harvesting comes back without the wait, and while offline work is
always there the next comparison waits as a step up does. So it comes back where harvesting was blamed, and those steps
are taken back: more traffic, or a slower release, looks like harm when it comes. Where harm is seen again right after
that, it stays stopped.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rowen.crds.harvest.latency_counts import RECENT_SECONDS
from rowen.crds.service.online_service import HarvestGuard, HarvestLevel, harvest_level
from rowen.kube.timestamps import rfc3339, unix_seconds
from rowen.operator.services.objective import Objective, Verdict, dated, worst

Cause = Literal["Harvest", "Untested", "Service", "Again"]
"""Service: it was blamed on harvesting, and is missed without too. Again: on harvesting, right after that."""

DWELL_SECONDS = RECENT_SECONDS + 120.0
"""The window of the reports, and how late they may tell of it."""
FIRST_SECONDS = 900.0
"""From the first step down to the step up."""
LONGEST_SECONDS = 4 * 3600.0
FORGET_SECONDS = 12 * 3600.0
"""At Full, after which the steps down are forgotten."""
_MOST_STEPS = 16
_MOST_LETTERS = 1024
_WHY: dict[Cause, str] = {
    "Harvest": "harvesting makes requests late",
    "Again": "harvesting makes requests late again",
    "Untested": "whether harvesting makes requests late is not known, which holding it back will show",
}
"""Of a step down."""
_UP: dict[HarvestLevel, HarvestLevel] = {"Stopped": "Reduced", "Reduced": "Full"}
_AGAIN: dict[HarvestLevel, str] = {
    "Stopped": "one job at a time is harvested again",
    "Reduced": "everything is harvested again",
}
"""After a step up by time, by the level before it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What was decided so far. `since` in Unix seconds; None: never a reason. At Full with no step: one is noted."""

    level: HarvestLevel = "Full"
    since: float | None = None
    steps: int = 0
    cause: Cause = "Harvest"
    message: str = ""

    @property
    def wait_seconds(self) -> float:
        """From a step to the next step up, or to the next comparison."""
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** (self.steps - 1)) if self.steps else 0.0

    @property
    def next_up(self) -> float | None:
        """When it goes a step up by time alone, Unix seconds; None where it is up."""
        if self.level == "Full" or self.since is None:
            return None
        return self.since + max(DWELL_SECONDS, self.wait_seconds)


def read_guard(stored: HarvestGuard | None, mode: str, now: float) -> Guard:
    """What the status tells, as far as it can be: a time that cannot be read, or that lies ahead, is now.

    What was seen while the service was harvested in another mode says nothing of this one.
    """
    if stored is None or stored.mode not in ("", mode):
        return Guard()
    try:
        since = min(now, max(0.0, unix_seconds(stored.since)))
    except ValueError:
        since = now
    steps = min(_MOST_STEPS, max(0, stored.steps))
    cause: Cause = next((known for known in get_args(Cause) if known == stored.cause), "Harvest")
    return Guard(harvest_level(stored.level), since, steps, cause, stored.message)


def written(guard: Guard, mode: str) -> HarvestGuard | None:
    """What the status is to tell; None: nothing."""
    if guard.since is None:
        return None
    return HarvestGuard(
        level=guard.level,
        since=rfc3339(guard.since, "seconds"),
        steps=guard.steps,
        cause=guard.cause,
        message=guard.message,
        mode=mode,
    )


def decide(before: Guard, objectives: Iterable[Objective], now: float, *, shared: bool = True) -> Guard:
    """The guard as of now (Unix seconds): `before` itself, or one step from there with the reason.

    `objectives` are told apart by device type; `shared`: whether a device has more than one tenant beside its engine.
    """
    lasted = float("inf") if before.since is None else now - before.since
    if before.level == "Full" and lasted >= FORGET_SECONDS:
        before = Guard()
    if lasted < DWELL_SECONDS:
        return before
    verdict, judged = worst(objectives)
    # The message is there for as long as the level: it says of what time its figures are.
    figures = dated(judged, now)
    if before.level != "Stopped" and verdict in (Verdict.HARVEST, Verdict.UNTESTED):
        cause = _cause(before, verdict)
        if before.since is None:
            return Guard("Full", now, 0, cause, _why(cause, figures))
        if verdict is Verdict.HARVEST or before.level != "Full" or lasted >= before.wait_seconds:
            return _down(before, cause, figures, now, shared=shared)
    if before.level == "Full" and before.steps == 0:
        return Guard()
    if verdict is Verdict.SERVICE and _excused(before):
        return _up(_taken_back(before), f"harvesting is not the cause: {figures}", now)
    if lasted >= before.wait_seconds:
        return _up(before, f"after {lasted / 60:.0f} min at {before.level} {_AGAIN.get(before.level)}", now)
    return before


def _cause(before: Guard, verdict: Verdict) -> Cause:
    if verdict is Verdict.UNTESTED:
        return "Untested"
    return "Again" if before.cause in ("Service", "Again") else "Harvest"


def _excused(before: Guard) -> bool:
    """Whether harvesting comes back at once where the service misses its objective without it too."""
    return before.cause in ("Untested", "Service") or (before.level == "Stopped" and before.cause == "Harvest")


def _taken_back(before: Guard) -> Guard:
    """Without a step down for which harvesting was blamed; one that was made to compare counts."""
    if before.cause == "Untested" or before.level == "Full":
        return before
    return replace(before, steps=max(0, before.steps - 1), cause="Service")


def _down(before: Guard, cause: Cause, figures: str, now: float, *, shared: bool) -> Guard:
    level: HarvestLevel = "Reduced" if before.level == "Full" and shared else "Stopped"
    return Guard(level, now, min(_MOST_STEPS, before.steps + 1), cause, _why(cause, figures))


def _why(cause: Cause, figures: str) -> str:
    return f"{_WHY[cause]}: {figures}"[:_MOST_LETTERS]


def _up(before: Guard, message: str, now: float) -> Guard:
    if before.level == "Full":
        return before
    return replace(before, level=_UP[before.level], since=now, message=message[:_MOST_LETTERS])
