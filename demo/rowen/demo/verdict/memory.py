"""Whose a device's pool of memory was, from readings of its agent. Pure."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.demo.verdict.counters import parse_counters

Owner = Literal["online_used", "online_ahead", "offline", "free"]
"""Whose a part of the pool is. What pods have for themselves is no part of it."""
OWNERS: tuple[Owner, ...] = get_args(Owner)
MIB = 2**20

# Readings further apart say nothing of the time between them.
_GAP_SECONDS = 10.0
_RECLAIMS = "rowen_reclaims_total"
_RECLAIMED = "rowen_reclaimed_bytes_total"


@dataclass(frozen=True)
class Reclaimed:
    """What was taken from offline work for the service and for new pods, since the agent started."""

    reclaims: int = 0
    """How often."""
    bytes: int = 0


@dataclass(frozen=True)
class PoolReading:
    """A device's memory at a moment."""

    at: float
    """Unix time, seconds."""
    owners: PoolOwners
    reclaimed: Reclaimed


@dataclass(frozen=True)
class MemorySummary:
    """A device's memory over a stretch of time. Bytes."""

    online_used_max: int
    """Most that the service used."""
    online_max: int
    """Most that it had, in use and ahead of need."""
    offline_max: int
    """Most that offline work had."""
    reclaims: int
    """Times that memory was taken from offline work for the service, or for a new pod."""
    reclaimed: int
    """How much was."""


@dataclass(frozen=True)
class Stack:
    """What is drawn of a stretch of time; NaN where nothing is known."""

    seconds: list[float]
    """From its start; each reading holds until the next."""
    mebibytes: dict[Owner, list[float]]


def parse_reclaimed(metrics: str) -> dict[str, Reclaimed]:
    """By device, from the agent's metrics. Raises `ValueError` for what are none."""
    found = parse_counters(metrics, (_RECLAIMS, _RECLAIMED))
    return {device: Reclaimed(of.get((_RECLAIMS, ""), 0), of.get((_RECLAIMED, ""), 0)) for device, of in found.items()}


def bytes_of(owners: PoolOwners, owner: Owner) -> int:
    """What it has of the pool."""
    return int(getattr(owners, f"{owner}_bytes"))


def pool_bytes(owners: PoolOwners) -> int:
    """All that may change its owner."""
    return sum(bytes_of(owners, owner) for owner in OWNERS)


def within(readings: Sequence[PoolReading], start: float, end: float) -> list[PoolReading]:
    """Those from `start` to `end`, and the one that still holds at `start`."""
    before = [reading for reading in readings if reading.at < start]
    held = [reading for reading in before[-1:] if start - reading.at < _GAP_SECONDS]
    return held + [reading for reading in readings if start <= reading.at <= end]


def taken(readings: Iterable[PoolReading]) -> list[tuple[float, Reclaimed]]:
    """When memory had been taken from offline work since the reading before, and how much."""
    found = []
    for before, after in itertools.pairwise(readings):
        # An agent that was started again counts from 0.
        again = after.reclaimed.reclaims < before.reclaimed.reclaims
        since = Reclaimed() if again else before.reclaimed
        more = Reclaimed(after.reclaimed.reclaims - since.reclaims, after.reclaimed.bytes - since.bytes)
        if more.reclaims > 0:
            found.append((after.at, more))
    return found


def summarize(readings: Sequence[PoolReading], start: float, end: float) -> MemorySummary | None:
    """The stretch in figures; None without a reading."""
    known = within(readings, start, end)
    if not known:
        return None
    moves = [more for _, more in taken(known)]
    owners = [reading.owners for reading in known]
    return MemorySummary(
        online_used_max=max(each.online_used_bytes for each in owners),
        online_max=max(each.online_used_bytes + each.online_ahead_bytes for each in owners),
        offline_max=max(each.offline_bytes for each in owners),
        reclaims=sum(more.reclaims for more in moves),
        reclaimed=sum(more.bytes for more in moves),
    )


def stack(readings: Sequence[PoolReading], start: float, end: float) -> Stack:
    """The parts of the pool over time, without what pods have for themselves."""
    drawn = Stack([], {owner: [] for owner in OWNERS})
    known = within(readings, start, end)
    untils = [*(later.at for later in known[1:]), end]
    for reading, until in zip(known, untils, strict=False):
        seconds = max(0.0, reading.at - start)
        _add(drawn, seconds, {owner: bytes_of(reading.owners, owner) / MIB for owner in OWNERS})
        if until - reading.at >= _GAP_SECONDS:
            _add(drawn, seconds + 1.0, dict.fromkeys(OWNERS, math.nan))
    if drawn.seconds:
        _add(drawn, end - start, {owner: values[-1] for owner, values in drawn.mebibytes.items()})
    return drawn


def _add(drawn: Stack, seconds: float, values: dict[Owner, float]) -> None:
    drawn.seconds.append(seconds)
    for owner, value in values.items():
        drawn.mebibytes[owner].append(value)
