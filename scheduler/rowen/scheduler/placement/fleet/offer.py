"""What all devices offer a newcomer, side by side."""

from collections.abc import Callable, Sequence

import numpy as np

from rowen.scheduler.model.memory import MemoryNeed, memory_doubts, memory_factors
from rowen.scheduler.model.prediction import combined_each
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.fleet.claims import Impact
from rowen.scheduler.placement.fleet.columns import Columns, Flags, Numbers, Rows, key_of

_LENT = 64
"""So many rows are worked out first: the factors of many devices are little work."""


class Offer:
    """To one whose memory has all it wants, and is at nobody's cost: the columns as they are."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.shares: Numbers = columns.share
        """Predicted fraction on each device alone, where the job's own memory has room."""
        self.uncertainties: Numbers = columns.uncertainties
        """Relative standard deviation of the share."""
        self.loss, self.payer, self.takes = columns.loss, columns.payer, columns.takes
        self.keys: Numbers = columns.keys
        """Order in which they are taken at the best rate."""
        self.bounds: Flags = np.zeros(len(columns.share), np.bool_)
        """Where the row is a bound: see `Lending`."""
        self.unlent = self.bounds
        """Where the share is one, too."""
        self.changed: list[int] = columns.changed
        """Rows that were changed, in order."""
        self._keeps: dict[Promise, tuple[Flags, int]] = {}
        """Of each promise, and how many changes are in it."""

    def keeps(self, promise: Promise) -> Flags:
        """Where the share clears the promise."""
        count = len(self.changed)
        if promise not in self._keeps:
            self._keeps[promise] = self.shares >= promise.needs(self.uncertainties), count
        flags, seen = self._keeps[promise]
        if seen < count:
            rows = np.array(self.changed[seen:], np.intp)
            flags[rows] = self.shares[rows] >= promise.needs(self.uncertainties[rows])
            self._keeps[promise] = flags, count
        return flags

    def refresh(self) -> None:
        """Takes into account who has come since."""

    def lend(self, rows: Rows) -> None:
        """Works out the memory factor on these rows."""

    def charge(self, rows: Rows) -> None:
        """Works out what these rows cost others."""

    def first(self, ranked: Callable[[int], Rows], most: int) -> Rows:
        """The first rows of an order in which a bound never stands behind what it is a bound of; so many at most.

        `ranked`: the first rows as they are now, so many at most.
        """
        lent, charged = most, most
        while True:
            rows = ranked(max(lent, charged))
            if not self.bounds[rows[:most]].any():
                return rows[:most]
            if self.unlent[rows[:most]].any():
                self.lend(rows)
                lent = max(_LENT, 2 * lent)
            else:
                self.charge(rows[:charged])
                charged *= 2

    def exact(self) -> "Offer":
        """The same with every row worked out."""
        self.lend(np.flatnonzero(self.unlent))
        self.charge(np.flatnonzero(self.bounds))
        return self


class Lending(Offer):
    """To one who wants memory of the pool, or whose `own` bytes are at the cost of others.

    It begins with the columns, which are bounds: nobody gets more than with M = 1, or costs others less than without
    memory. A row is worked out when a search comes to it. `needs`: see `Columns.needs`; M is 1 where there is none.
    `cost`: what the newcomer does to those on the device of that row.
    """

    def __init__(
        self, needs: Sequence[MemoryNeed | None], own: int, columns: Columns, cost: Callable[[int, int], Impact]
    ) -> None:
        super().__init__(columns)
        self._own, self._cost = own, cost
        self._needs: dict[tuple[MemoryNeed, int], int] = {}
        """What such jobs do on devices whose memory is told in so many parts, numbered."""
        kinds, of_rows = columns.kinds if needs else ([], np.zeros(len(columns.share), np.intp))
        numbers = [
            -1 if need is None else self._needs.setdefault((need, parts), len(self._needs))
            for need, (_, _, parts) in zip(needs, kinds, strict=True)
        ]
        self._number_of: Rows = np.array(numbers or [-1], np.intp)[of_rows]
        self.shares, self.uncertainties = columns.share.copy(), columns.uncertainties.copy()
        self.loss, self.payer, self.takes = columns.loss.copy(), columns.payer.copy(), columns.takes.copy()
        self.keys = columns.keys.copy()
        self.unlent = self._number_of >= 0
        self.bounds = self.unlent | (columns.lends & (own > 0))
        self.changed = []
        self._seen = len(columns.changed)

    def refresh(self) -> None:
        """Takes into account who has come since."""
        columns = self._columns
        if self._seen == len(columns.changed):
            return
        changed = columns.changed[self._seen :]
        self._seen = len(columns.changed)
        self.changed += changed
        rows = np.array(changed, np.intp)
        known = rows[~self.unlent[rows]]
        self.shares[rows], self.uncertainties[rows] = columns.share[rows], columns.uncertainties[rows]
        self.loss[rows], self.payer[rows] = columns.loss[rows], columns.payer[rows]
        self.takes[rows], self.keys[rows] = columns.takes[rows], columns.keys[rows]
        self.unlent[rows] = self._number_of[rows] >= 0
        self.bounds[rows] = self.unlent[rows] | (columns.lends[rows] & (self._own > 0))
        # A search that came to them once will come to them again.
        self.lend(known)

    def lend(self, rows: Rows) -> None:
        """Works out the memory factor on these rows."""
        columns, rows = self._columns, rows[self.unlent[rows]]
        factors, doubts = self._memory(rows)
        self.shares[rows] = columns.share[rows] * factors
        self.uncertainties[rows] = combined_each(columns.of_idle[rows], doubts, columns.tenants[rows] > 0)
        self.unlent[rows], self.bounds[rows] = False, columns.lends[rows] & (self._own > 0)
        self._rank(rows)

    def charge(self, rows: Rows) -> None:
        """Works out what these rows cost others."""
        rows = rows[self.bounds[rows] & ~self.unlent[rows]]
        for row in rows.tolist():
            impact = self._cost(row, self._own)
            self.loss[row], self.payer[row] = impact.loss, impact.priority
            self.takes[row] &= impact.broken is None
        self.bounds[rows] = False
        self._rank(rows)

    def _rank(self, rows: Rows) -> None:
        self.keys[rows] = key_of(self.shares[rows] - self.loss[rows], self.shares[rows])
        self.changed += rows.tolist()

    def _memory(self, rows: Rows) -> tuple[Numbers, Numbers]:
        """M on these rows, and its doubt."""
        columns, numbers = self._columns, self._number_of[rows]
        factors, doubts = np.ones(len(rows)), np.zeros(len(rows))
        for (need, parts), number in self._needs.items():
            at = np.flatnonzero(numbers == number)
            if len(at):
                found = rows[at]
                left = columns.available(found, parts) - (columns.unseen[found] + self._own)[:, None]
                factors[at] = memory_factors(need, left, 1.0 / (columns.tenants[found] + 1))
                doubts[at] = memory_doubts(need, factors[at])
        return factors, doubts
