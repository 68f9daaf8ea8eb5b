"""How many requests took how long: counts on one fixed scale, which can be added up over devices.

A cell is 12 % longer than the one before it (20 in a decade, from 0.1 ms to 100 s). An objective counts as missed by
the requests of the cells beyond its own, so it is told up to 12 % too lax, and never too strict.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field

from rowen.crds.base import ReadModel

_CELLS_PER_DECADE = 20
_DECADES = 6
BOUNDS_SECONDS = tuple(
    float(f"{1e-4 * 10 ** (index / _CELLS_PER_DECADE):.4g}") for index in range(_DECADES * _CELLS_PER_DECADE + 1)
)
"""Upper ends of the cells, all but the last one's, which has none."""
CELLS = len(BOUNDS_SECONDS) + 1
MOST_PER_SECOND = 1000
"""Streamed responses that one device may end; more cannot be, and would outweigh all others."""
_NOT_NEGATIVE = Field(json_schema_extra={"minimum": 0})
"""For the API server alone: a bad count is passed over, and does not make a whole report unreadable."""


def cell_of(seconds: float) -> int:
    """The cell of a latency; its upper end belongs to it."""
    return bisect_left(BOUNDS_SECONDS, seconds)


class LatencyCounts(ReadModel):
    """Requests by latency."""

    first: Annotated[int, _NOT_NEGATIVE]
    """Cell of the first count: cell i > 0 ends at 10^(i/20) times 0.1 ms, cell 0 at 0.1 ms."""
    counts: Annotated[list[Annotated[int, _NOT_NEGATIVE]], Field(max_length=CELLS)]
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


class RequestCounts(ReadModel):
    """Latencies of a device's streamed requests that have ended within a window."""

    offline: bool
    """Of the requests during which an offline tenant was on the device; else of the others."""
    seconds: Annotated[int, Field(json_schema_extra={"minimum": 1})]
    """Length of the window, up to half a minute before the report."""
    ttft: LatencyCounts | None = None
    """By time to first token."""
    tpot: LatencyCounts | None = None
    """By time per output token."""

    def valid(self, counts: LatencyCounts | None) -> LatencyCounts | None:
        """Those counts of this window if they can be: no more than a device serves within it."""
        most = MOST_PER_SECOND * self.seconds
        return counts if counts is not None and counts.valid and counts.requests <= most else None


RECENT_SECONDS = 600
"""The window that a service is judged by."""
PAST_SECONDS = 3600
"""A longer one, for what the service does without offline tenants where they are there most of the time."""
LEAST_REQUESTS = 100
"""Fewer say nothing of an objective; a device with so many of the recent window does not tell of the longer one."""
