"""How many of a service's requests were late, beside offline work and without: the reports of all its devices added up.

Whose fault it is, is told apart for each device type: slow devices would look harmed where only they are harvested.
Pure. A count that cannot be (negative, beyond the scale, more than a device serves) is passed over; the others count.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from rowen.crds.base import duration_seconds
from rowen.crds.harvest.latency_counts import LEAST_REQUESTS, PAST_SECONDS, RECENT_SECONDS, LatencyCounts
from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.service.online_service import LatencyTarget, Slo
from rowen.kube.timestamps import rfc3339
from rowen.operator.services.proportions import Proportion, least_difference, lower, upper

Latency = Literal["ttft", "tpot"]
Z = 3.09
"""Of the intervals: an objective that is just kept is taken for missed about once in a thousand windows."""


_NOBODY = Proportion()
_Z_KEPT = 1.2816
"""To be taken for kept after it was not: one in ten that just misses is, if it is looked at once."""


class Verdict(IntEnum):
    """Whose fault it is that an objective is missed; the worse the higher."""

    NONE = 0
    """It is not known to be missed beside offline work, nor without; or that will soon be known."""
    SERVICE = 1
    """It is missed without offline work too."""
    UNTESTED = 2
    """It is missed beside offline work, which is there nearly always: nothing is known of it without."""
    HARVEST = 3
    """It is missed beside offline work, and kept without or missed far less often."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective, and the requests that were late by it."""

    latency: Latency
    percentile: int
    target_seconds: float
    beside: Proportion = _NOBODY
    """Of the last ten minutes, while an offline tenant was on the device."""
    without: Proportion = _NOBODY
    """Of the last ten minutes, the others."""
    past: Proportion = _NOBODY
    """The others of the last hour."""
    device_type: str = ""
    """Of the devices that served them; empty: of all."""

    @property
    def allowed(self) -> float:
        """Part of the requests that may be late."""
        return (100 - self.percentile) / 100

    @property
    def all(self) -> Proportion:
        """Of the last ten minutes."""
        return self.beside + self.without

    @property
    def compared(self) -> Proportion | None:
        """What the service does without offline work: the last ten minutes, or the hour; None where it is not known."""
        return next((part for part in (self.without, self.past) if part.of >= LEAST_REQUESTS), None)

    @property
    def never_alone(self) -> bool:
        """Whether at this rate an hour would not show what the service does without offline work."""
        return self.without.of * (PAST_SECONDS / RECENT_SECONDS) < LEAST_REQUESTS

    def missed(self, part: Proportion) -> bool:
        """Whether that part of the requests misses the objective, with confidence."""
        return part.of > 0 and lower(part, Z) > self.allowed

    def kept(self, part: Proportion) -> bool:
        """Whether that part of the requests keeps the objective, with some confidence."""
        return part.of > 0 and upper(part, _Z_KEPT) <= self.allowed

    @property
    def least(self) -> int:
        """Requests that can show that the objective is kept, if none of them is late."""
        return max(LEAST_REQUESTS, round(3.0 / self.allowed))

    def verdict(self) -> Verdict:
        """Whose fault it is.

        Where the objective is missed without offline work too, harvesting is at fault only if it more than doubles the
        late requests, with confidence.
        """
        base = self.compared
        missed_without = base is not None and self.missed(base)
        if self.beside.of >= LEAST_REQUESTS and self.missed(self.beside):
            if base is None:
                return Verdict.UNTESTED if self.never_alone else Verdict.NONE
            if least_difference(self.beside, base, Z) > (base.rate if missed_without else 0.0):
                return Verdict.HARVEST
        return Verdict.SERVICE if missed_without else Verdict.NONE

    def told(self) -> str:
        """Beside offline work and without, after when it was."""
        base, where = self.compared, self._where
        hour = "" if base is self.without else " in the hour before"
        others = f"{_told(base)} without it{hour}" if base is not None else "too few were served without it to compare"
        if self.beside.of:
            return f"{self._shares(self.beside)}{where} beside offline work {self._too_long()}, and {others}"
        if base is None:
            return f"no request was served{where} beside offline work, and {others}"
        alone = f"{self._shares(base)} without it{hour} {self._too_long()}"
        return f"no request was served{where} beside offline work, and {alone}"

    def all_told(self) -> str:
        """All requests, after when it was."""
        return f"{self._shares(self.all)} {self._too_long()}"

    def parts_told(self) -> str:
        """What `all_told` counts, apart by whether offline work was there: no figure a second time."""
        base, where = self.compared, self._where
        if not self.beside.of:
            beside = f"no request was served{where} beside offline work"
            if not where and base is self.without:
                return beside
        elif not where and not self.without.of:
            beside = "all of them were served beside offline work"
        else:
            beside = f"{_told(self.beside)}{where} beside offline work"
        if base is None:
            return f"{beside}, too few without it to compare"
        return f"{beside}, {_told(base)} without it{'' if base is self.without else ' in the last hour'}"

    @property
    def _where(self) -> str:
        return f" on {self.device_type}" if self.device_type else ""

    def _too_long(self) -> str:
        what = {"ttft": "to the first token (TTFT)", "tpot": "per output token (TPOT)"}[self.latency]
        seconds = self.target_seconds
        target = f"{seconds:g} s" if seconds >= 1.0 else f"{seconds * 1000:g} ms"
        return f"took longer than {target} {what}"

    def _shares(self, part: Proportion) -> str:
        allowed = f"p{self.percentile} allows {self.allowed:.0%}"
        return f"{part.count} of {part.of} requests ({part.rate:.1%}; {allowed})"


def _told(part: Proportion) -> str:
    return f"{part.count} of {part.of} ({part.rate:.1%})"


def objectives(slo: Slo, devices: Iterable[DeviceHarvest]) -> tuple[Objective, Objective]:
    """Both objectives of a service, over all its devices."""
    devices = tuple(devices)
    return _objective("ttft", slo.ttft, devices), _objective("tpot", slo.tpot, devices)


def objectives_by_type(slo: Slo, devices: Iterable[DeviceHarvest]) -> tuple[Objective, ...]:
    """Both objectives, for each type of the service's devices; the type is named where there are several."""
    types = defaultdict[str, list[DeviceHarvest]](list)
    for device in devices:
        types[device.type].append(device)
    if len(types) < 2:
        return tuple(each for same in types.values() for each in objectives(slo, same))
    return tuple(replace(each, device_type=name) for name in sorted(types) for each in objectives(slo, types[name]))


def _objective(latency: Latency, target: LatencyTarget, devices: Iterable[DeviceHarvest]) -> Objective:
    seconds = duration_seconds(target.target)
    wanted = (True, RECENT_SECONDS), (False, RECENT_SECONDS), (False, PAST_SECONDS)
    parts = dict.fromkeys(wanted, _NOBODY)
    for device in devices:
        for window in device.online.requests if device.online else ():
            counts: LatencyCounts | None = window.valid(getattr(window, latency))
            key = window.offline, window.seconds
            if key in parts and counts is not None:
                parts[key] += Proportion(counts.above(seconds), counts.requests)
    beside, without, past = (parts[key] for key in wanted)
    return Objective(latency, target.percentile, seconds, beside, without, past)


def worst(objectives: Iterable[Objective]) -> tuple[Verdict, tuple[Objective, ...]]:
    """The gravest verdict, and those that it rests on."""
    judged = [(objective.verdict(), objective) for objective in objectives]
    verdict = max((each for each, _ in judged), default=Verdict.NONE)
    return verdict, tuple(objective for each, objective in judged if each is verdict)


def dated(objectives: Iterable[Objective], at: float) -> str:
    """Their figures, in a sentence that holds at `at` (Unix seconds) and afterwards."""
    told = "; ".join(objective.told() for objective in objectives)
    return f"in the 10 min before {rfc3339(at, 'seconds')} {told}"
