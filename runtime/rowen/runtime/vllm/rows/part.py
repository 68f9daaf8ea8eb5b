"""Rows' part of a step."""

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from vllm.v1.core.sched.request_queue import FCFSRequestQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vllm.v1.request import Request

    from rowen.runtime.vllm.rows.blocks import Beginning
    from rowen.runtime.vllm.rows.order import Rows
    from rowen.runtime.vllm.rows.riders import Riders

ASIDE_MOST = 4
"""When so many rows of a step did not fit, no other begins in it: the next step goes on behind them."""
PASSED_MOST = 64
"""After so many that began before a row that does not fit, those behind it wait until it has begun."""
SKIPPED_MOST = 512
"""So many that do not fit are gone by at most: they make a step longer by a little each."""


@dataclass
class RowPart:
    """vLLM schedules it, and once more where a row does not fit, with those behind that."""

    seats: int
    tokens: int
    seated: "list[Request]"
    """Those that ran before and go on in it."""
    queue: FCFSRequestQueue
    """Those that may begin."""
    beginning: "Beginning"
    skipped: "Sequence[Request]" = ()
    """Those before them that did not fit into as much in a step before."""
    aside: "list[Request]" = field(default_factory=list)
    """Those that did not fit."""

    def schedules(self, tokens: int, begun: int, riders: "Riders") -> bool:
        """Takes over what vLLM made of it; whether there is anything left to schedule."""
        for row in chain(self.skipped, self.aside) if begun else ():
            riders.rows.row(row).passed += begun
        self.tokens -= tokens
        self.seats -= len(self.seated) + begun
        self.seated = []
        row, self.beginning.stuck = self.beginning.stuck, None
        if row is None:
            return False
        self.aside.append(row)
        riders.rows.row(row).tried_with = self.beginning.room
        self.queue = FCFSRequestQueue(islice(self.queue, self.queue.index(row) + 1, None))
        return not self._is_kept_for(row, riders) and self._has_room()

    def _has_room(self) -> bool:
        room = self.queue and self.tokens > 0 and self.seats > 0 and self.beginning.room > 0
        return bool(room) and len(self.aside) < ASIDE_MOST

    def _is_kept_for(self, row: "Request", riders: "Riders") -> bool:
        """Whether what rows have is left to it as they end. Not where that is too little: online requests have more."""
        known = riders.rows.row(row)
        if known.passed < PASSED_MOST:
            return False
        kept = self.beginning.waits_for(riders.running)
        if not kept:
            # Else it would be tried in each step, in place of others.
            known.passed = 0
        return kept


def split(rows: "Iterable[Request]", room: int, most: int, among: "Rows") -> "tuple[list[Request], list[Request]]":
    """Of rows that wait, those that are gone by with room for so many blocks, and at most `most` that are tried."""
    skipped: list[Request] = []
    tried: list[Request] = []
    for row in islice(rows, SKIPPED_MOST + most):
        known = among.row(row)
        if known.tried_with >= room and known.passed < PASSED_MOST:
            skipped.append(row)
        else:
            tried.append(row)
        if len(tried) == most:
            break
    return skipped, tried
