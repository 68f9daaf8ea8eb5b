"""Rows' part of a step."""

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from vllm.v1.core.sched.request_queue import FCFSRequestQueue

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from rowen.runtime.vllm.rows.blocks import Beginning
    from rowen.runtime.vllm.rows.riders import Riders

ASIDE_MOST = 4
"""When so many rows of a step did not fit, no other begins in it."""
PASSED_MOST = 64
"""After so many that began before a row that does not fit, those behind it wait until it has begun."""


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
    aside: "list[Request]" = field(default_factory=list)
    """Those that did not fit."""

    def schedules(self, tokens: int, begun: int, riders: "Riders") -> bool:
        """Takes over what vLLM made of it; whether there is anything left to schedule."""
        for row in self.aside:
            riders.rows.pass_by(row, begun)
        self.tokens -= tokens
        self.seats -= len(self.seated) + begun
        self.seated = []
        row, self.beginning.stuck = self.beginning.stuck, None
        if row is None:
            return False
        self.aside.append(row)
        self.queue = FCFSRequestQueue(islice(self.queue, self.queue.index(row) + 1, None))
        return self._has_room() and not self._is_kept_for(row, riders)

    def _has_room(self) -> bool:
        room = self.queue and self.tokens > 0 and self.seats > 0 and self.beginning.may_find_blocks
        return bool(room) and len(self.aside) < ASIDE_MOST

    def _is_kept_for(self, row: "Request", riders: "Riders") -> bool:
        """Whether what rows have is left to it as they end. Not where that is too little: online requests have more."""
        return riders.rows.passed(row) >= PASSED_MOST and self.beginning.waits_for(riders.running)
