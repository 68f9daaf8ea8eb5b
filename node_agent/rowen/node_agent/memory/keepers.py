"""Slots whose processes keep memory that they have to give back, and when each is to be evicted. No I/O."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rowen.node_agent.memory.loans import Borrower
from rowen.node_agent.memory.pool import Kind, PoolStatus

FIRST_SECONDS = 10.0
"""Between an eviction and the next one, while memory is still kept; then twice as long each time."""
MOST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Try:
    next_time: float
    """Seconds, monotonic clock."""
    wait_seconds: float


class Keepers:
    """Of one device."""

    def __init__(self) -> None:
        self._tries: dict[int, _Try] = {}

    def due(self, pool: PoolStatus, borrowers: Mapping[int, Borrower], now: float) -> dict[int, int]:
        """By slot, the bytes that processes have kept beyond their grants for too long, where an eviction is due.

        `now`: seconds, monotonic clock.
        """
        kept: defaultdict[int, int] = defaultdict(int)
        for member in pool.members:
            borrower = borrowers.get(member.number)
            if borrower is not None and borrower.slot is not None and member.kind is Kind.OFFLINE and member.stubborn:
                kept[borrower.slot] += member.stubborn * pool.handle_bytes
        self._tries = {slot: tried for slot, tried in self._tries.items() if slot in kept}
        return {slot: size for slot, size in kept.items() if self._is_due(slot, now)}

    def _is_due(self, slot: int, now: float) -> bool:
        before = self._tries.get(slot)
        if before is not None and now < before.next_time:
            return False
        wait = FIRST_SECONDS if before is None else min(2 * before.wait_seconds, MOST_SECONDS)
        self._tries[slot] = _Try(now + wait, wait)
        return True
