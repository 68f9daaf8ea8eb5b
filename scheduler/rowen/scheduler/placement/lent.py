"""M on all devices at once: what the pools lend a newcomer."""

import numpy as np

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.memory import MemoryNeed, memory_doubts, memory_factors
from rowen.scheduler.placement.columns import Columns, Numbers, Rows


class Lent:
    """M of jobs that are alike, and how unsure it is, by row; 1 where memory does not change its owner."""

    def __init__(self, appetite: Appetite, columns: Columns) -> None:
        self._columns, self._seen = columns, len(columns.changed)
        self.factors: Numbers = np.ones(len(columns.share))
        self.doubts: Numbers = np.zeros(len(columns.share))
        kinds, of_rows = columns.kinds
        self._needs: dict[tuple[MemoryNeed, int], int] = {}
        """What such jobs do on devices whose memory is told in so many parts, numbered."""
        numbers = [self._number(appetite.on(type_, memory), parts) if parts else -1 for type_, memory, parts in kinds]
        self._number_of: Rows = np.array(numbers, np.intp)[of_rows]
        self._work_out(np.flatnonzero(self._number_of >= 0))

    def _number(self, need: MemoryNeed, parts: int) -> int:
        return self._needs.setdefault((need, parts), len(self._needs))

    def refresh(self) -> None:
        """Takes into account who has come since."""
        changed = self._columns.changed
        if self._seen < len(changed):
            rows = np.array(sorted(set(changed[self._seen :])), np.intp)
            self._seen = len(changed)
            self._work_out(rows[self._number_of[rows] >= 0])

    def _work_out(self, rows: Rows) -> None:
        numbers = self._number_of[rows]
        for (need, parts), number in self._needs.items():
            found = rows[numbers == number]
            if len(found):
                available = self._columns.available[found, :parts]
                shares = 1.0 / (self._columns.tenants[found] + 1)
                self.factors[found] = memory_factors(need, available, shares)
                self.doubts[found] = memory_doubts(need, self.factors[found])
