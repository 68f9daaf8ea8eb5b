"""What all devices offer a newcomer with one appetite, side by side."""

import numpy as np

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.memory import MemoryNeed, memory_doubts, memory_factors
from rowen.scheduler.model.prediction import combined_each
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.columns import Columns, Flags, Numbers, Rows, key_of


class Offer:
    """Columns beside those that do not depend on the job. M is 1 where memory does not change its owner."""

    def __init__(self, appetite: Appetite | None, columns: Columns) -> None:
        self._columns, self._seen = columns, len(columns.changed)
        count = len(columns.share)
        self._factors, self._doubts = np.ones(count), np.zeros(count)
        self._needs: dict[tuple[MemoryNeed, int], int] = {}
        """What such jobs do on devices whose memory is told in so many parts, numbered."""
        self._number_of: Rows = np.full(count, -1, np.intp)
        if appetite is not None:
            self._number(appetite)
        self.shares: Numbers = np.empty(count)
        """Predicted fraction on each device alone, where the job's own memory has room."""
        self.keys: Numbers = np.empty(count)
        """Order in which they are taken at the best rate."""
        self.uncertainties: Numbers = np.empty(count)
        """Relative standard deviation of the share."""
        self._keeps: dict[Promise, Flags] = {}
        self._work_out(np.arange(count))

    def _number(self, appetite: Appetite) -> None:
        kinds, of_rows = self._columns.kinds
        numbers = [-1] * len(kinds)
        for at, (type_, memory, parts) in enumerate(kinds):
            if parts:
                numbers[at] = self._needs.setdefault((appetite.on(type_, memory), parts), len(self._needs))
        self._number_of = np.array(numbers, np.intp)[of_rows]

    def keeps(self, promise: Promise) -> Flags:
        """Where the share clears the promise."""
        if promise not in self._keeps:
            self._keeps[promise] = self.shares >= promise.needs(self.uncertainties)
        return self._keeps[promise]

    def refresh(self) -> None:
        """Takes into account who has come since."""
        changed = self._columns.changed
        if self._seen < len(changed):
            rows = np.array(sorted(set(changed[self._seen :])), np.intp)
            self._seen = len(changed)
            self._work_out(rows)
            for promise, keeps in self._keeps.items():
                keeps[rows] = self.shares[rows] >= promise.needs(self.uncertainties[rows])

    def _work_out(self, rows: Rows) -> None:
        columns, numbers = self._columns, self._number_of[rows]
        for (need, parts), number in self._needs.items():
            found = rows[numbers == number]
            if len(found):
                available = columns.available[:, :parts]
                available = available if len(found) == len(available) else available[found]
                factors = memory_factors(need, available, 1.0 / (columns.tenants[found] + 1))
                self._factors[found], self._doubts[found] = factors, memory_doubts(need, factors)
        self.shares[rows] = columns.share[rows] * self._factors[rows]
        self.keys[rows] = key_of(self.shares[rows] - columns.loss[rows], self.shares[rows])
        shared = columns.tenants[rows] > 0
        self.uncertainties[rows] = combined_each(columns.of_idle[rows], self._doubts[rows], shared)
