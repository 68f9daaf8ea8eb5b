"""Slots whose processes keep memory that they have to give back, and when each is to be evicted. No I/O."""

from collections import defaultdict
from collections.abc import Mapping

from rowen.node_agent.memory.loans import Borrower
from rowen.node_agent.memory.pool_status import Kind, PoolStatus
from rowen.node_agent.tries import Tries


class Keepers:
    """Of one device."""

    def __init__(self) -> None:
        self._tries = Tries[int]()

    def due(self, pool: PoolStatus, borrowers: Mapping[int, Borrower], now: float) -> dict[int, int]:
        """By slot, the bytes that processes have kept beyond their grants for too long, where an eviction is due.

        `now`: seconds, monotonic clock.
        """
        kept: defaultdict[int, int] = defaultdict(int)
        for member in pool.members:
            borrower = borrowers.get(member.number)
            if borrower is not None and borrower.slot is not None and member.kind is Kind.OFFLINE and member.stubborn:
                kept[borrower.slot] += member.stubborn * pool.handle_bytes
        return {slot: kept[slot] for slot in self._tries.due(kept, now)}
