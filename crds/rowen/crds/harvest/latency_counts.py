"""How many requests took how long: counts on one fixed scale, which can be added up over devices.

A cell is 12 % longer than the one before it (20 in a decade, from 0.1 ms to 100 s). An objective counts as missed by
the requests of the cells beyond its own, so it is told up to 12 % too lax, and never too strict.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from rowen.crds.base import ReadModel
from rowen.crds.text.numbers import apart, joined

_CELLS_PER_DECADE = 20
_DECADES = 6
BOUNDS_SECONDS = tuple(
    float(f"{1e-4 * 10 ** (index / _CELLS_PER_DECADE):.4g}") for index in range(_DECADES * _CELLS_PER_DECADE + 1)
)
"""Upper ends of the cells, all but the last one's, which has none."""
CELLS = len(BOUNDS_SECONDS) + 1
MOST_PER_SECOND = 8000
"""Streamed responses that the devices of a node may end; more cannot be, and would outweigh all others."""


def cell_of(seconds: float) -> int:
    """The cell of a latency; its upper end belongs to it."""
    return bisect_left(BOUNDS_SECONDS, seconds)


class LatencyCounts(ReadModel):
    """Requests by latency."""

    first: int
    """Cell of the first count: cell i > 0 ends at 10^(i/20) times 0.1 ms, cell 0 at 0.1 ms."""
    counts: list[int]
    """Requests in that cell and the ones after it."""

    @classmethod
    def of(cls, cells: Mapping[int, int]) -> Self | None:
        """From the counts by cell; None where there are none."""
        held = [cell for cell, count in cells.items() if count]
        if not held:
            return None
        first, last = min(held), max(held)
        return cls(first=first, counts=[cells.get(cell, 0) for cell in range(first, last + 1)])

    @property
    def valid(self) -> bool:
        """Whether they can be: nothing negative, nothing beyond the scale."""
        return self.first >= 0 and self.first + len(self.counts) <= CELLS and min(self.counts, default=0) >= 0

    @property
    def requests(self) -> int:
        """All of them."""
        return sum(self.counts)

    def above(self, seconds: float) -> int:
        """Those that certainly took longer."""
        return sum(self.counts[max(0, cell_of(seconds) + 1 - self.first) :])


def _read(value: object) -> object:
    """A bad text is passed over like any bad count, and does not make a whole report unreadable."""
    if not isinstance(value, str):
        return value
    try:
        first, *counts = apart(value)
    except ValueError:
        return {"first": -1, "counts": []}
    return {"first": first, "counts": counts}


def _written(counts: LatencyCounts) -> str:
    return joined([counts.first, *counts.counts])


LatencyText = Annotated[
    LatencyCounts,
    BeforeValidator(_read),
    PlainSerializer(_written, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 1024, "pattern": "^[A-Za-z0-9+/]*={0,2}$"}),
]
"""As a report has them: the first cell and the counts, as `numbers.joined`."""


class RequestCounts(ReadModel):
    """Latencies of streamed requests that have ended within a window, of a node's devices of one service and type."""

    offline: bool
    """Of the requests during which an offline tenant was on the device; else of the others."""
    seconds: Annotated[int, Field(json_schema_extra={"minimum": 1})]
    """Length of the window, up to half a minute before the report."""
    ttft: LatencyText | None = None
    """By time to first token: the first cell that has some, then the counts of this and the ones after it, as base64 of
    numbers of seven bits a byte, the lowest first, with the eighth set in all their bytes but the last. Cell i > 0 ends
    at 10^(i/20) times 0.1 ms, cell 0 at 0.1 ms."""
    tpot: LatencyText | None = None
    """By time per output token, likewise."""

    def valid(self, counts: LatencyCounts | None) -> LatencyCounts | None:
        """Those counts of this window if they can be: no more than a node serves within it."""
        most = MOST_PER_SECOND * self.seconds
        return counts if counts is not None and counts.valid and counts.requests <= most else None


RECENT_SECONDS = 600
"""The window that a service is judged by."""
PAST_SECONDS = 3600
"""A longer one, for what the service does without offline tenants where they are there most of the time."""
LEAST_REQUESTS = 100
"""Fewer say nothing of an objective; a device with so many of the recent window does not tell of the longer one."""
