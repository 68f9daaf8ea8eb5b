"""What all devices offer a newcomer, side by side."""

from collections.abc import Sequence

import numpy as np

from rowen.scheduler.model.memory import MemoryNeed, memory_doubts, memory_factors
from rowen.scheduler.model.prediction import combined_each
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.fleet.columns import Columns, Flags, Numbers, Rows, key_of


class Offer:
    """To one whose memory has all it wants: the columns as they are."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.shares: Numbers = columns.share
        """Predicted fraction on each device alone, where the job's own memory has room."""
        self.keys: Numbers = columns.keys
        """Order in which they are taken at the best rate."""
        self.uncertainties: Numbers = columns.uncertainties
        """Relative standard deviation of the share."""
        self._keeps: dict[Promise, tuple[Flags, int]] = {}
        """Of each promise, and how many changes of the columns are in it."""

    def keeps(self, promise: Promise) -> Flags:
        """Where the share clears the promise."""
        self.refresh()
        count = len(self._columns.changed)
        if promise not in self._keeps:
            self._keeps[promise] = self.shares >= promise.needs(self.uncertainties), count
        flags, seen = self._keeps[promise]
        if seen < count:
            rows = self._changed(seen)
            flags[rows] = self.shares[rows] >= promise.needs(self.uncertainties[rows])
            self._keeps[promise] = flags, count
        return flags

    def refresh(self) -> None:
        """Takes into account who has come since."""

    def _changed(self, seen: int) -> Rows:
        """Rows that were changed after so many changes."""
        return np.array(list(set(self._columns.changed[seen:])), np.intp)


class Lending(Offer):
    """To one who wants memory of the pool, with `own` bytes for itself.

    `needs`: see `Columns.needs`; M is 1 where there is none.
    """

    def __init__(self, needs: Sequence[MemoryNeed | None], own: int, columns: Columns) -> None:
        super().__init__(columns)
        self._own = own
        kinds, of_rows = columns.kinds
        self._needs: dict[tuple[MemoryNeed, int], int] = {}
        """What such jobs do on devices whose memory is told in so many parts, numbered."""
        numbers = [
            -1 if need is None else self._needs.setdefault((need, parts), len(self._needs))
            for need, (_, _, parts) in zip(needs, kinds, strict=True)
        ]
        self._number_of: Rows = np.array(numbers, np.intp)[of_rows]
        count = len(columns.share)
        self._factors, self._doubts = np.ones(count), np.zeros(count)
        self.shares, self.keys, self.uncertainties = np.empty(count), np.empty(count), np.empty(count)
        self._work_out(np.arange(count))
        self._seen = len(columns.changed)

    def refresh(self) -> None:
        """Takes into account who has come since."""
        if self._seen < len(self._columns.changed):
            self._work_out(self._changed(self._seen))
            self._seen = len(self._columns.changed)

    def _work_out(self, rows: Rows) -> None:
        columns, numbers = self._columns, self._number_of[rows]
        for (need, parts), number in self._needs.items():
            found = rows[numbers == number]
            if len(found):
                available = columns.available[:, :parts]
                available = available if len(found) == len(available) else available[found]
                left = available - (columns.unseen[found] + self._own)[:, None]
                factors = memory_factors(need, left, 1.0 / (columns.tenants[found] + 1))
                self._factors[found], self._doubts[found] = factors, memory_doubts(need, factors)
        self.shares[rows] = columns.share[rows] * self._factors[rows]
        self.keys[rows] = key_of(self.shares[rows] - columns.loss[rows], self.shares[rows])
        shared = columns.tenants[rows] > 0
        self.uncertainties[rows] = combined_each(columns.of_idle[rows], self._doubts[rows], shared)
