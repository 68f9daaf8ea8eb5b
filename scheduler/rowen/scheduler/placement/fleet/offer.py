"""What all devices offer a newcomer, side by side."""

from collections.abc import Callable, Sequence

import numpy as np

from rowen.scheduler.model.memory import MemoryNeed, memory_doubts, memory_factors
from rowen.scheduler.model.prediction import combined_each
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.fleet.claims import Impact
from rowen.scheduler.placement.fleet.columns import ALL, NEVER, At, Columns, Flags, Numbers, Rows, best, key_of
from rowen.scheduler.placement.fleet.front import Front

_LENT = 16
"""So many rows are worked out first: the factors of many devices are little work."""
_SLACK = 1e-9
"""A bound is above what it is a bound of by more than rounding."""


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
        """Order in which they are taken at the best rate; `NEVER` where a newcomer is refused whatever its promise."""
        self.told: Numbers = columns.told
        """Order in which they are told of; `NEVER` where nothing is placed."""
        self.bounds: Flags = np.zeros(len(columns.share), np.bool_)
        """Where the row is a bound: see `Lending`."""
        self.unlent = self.bounds
        """Where the share is one, too."""
        self.changed: list[int] = columns.changed
        """Rows that were changed, in order."""
        self._keeps: dict[Promise, tuple[Flags, int]] = {}
        """Of each promise, and how many changes are in it."""
        self._fronts()

    def _fronts(self) -> None:
        self._front, self._front_told = Front(self.keys, self.changed), Front(self.told, self.changed)

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

    def best(self, order: Callable[[At], Numbers], most: int) -> Rows:
        """The first rows of an order that puts no row above its key in `keys`; so many at most.

        `order`: the keys of those rows as they are now, largest first, `NEVER` for what is no place.
        """
        return self._within(self._front, order, most)

    def told_first(self, rows: Flags, most: int) -> Rows:
        """The first of these rows in the order in which they are told of; so many at most."""
        return self._within(self._front_told, lambda at: np.where(rows[at], self.told[at], NEVER), most)

    def _within(self, front: Front, order: Callable[[At], Numbers], most: int) -> Rows:
        """The first rows of an order in which a bound never stands behind what it is a bound of.

        It puts no row above its key in the front, which is looked at first.
        """
        rows = front.rows()
        found, last = self._first(order, most, rows, order(rows), front.floor)
        if front.whole or (len(found) == most and front.holds(int(found[-1]), last)):
            return found
        front.renew()
        found, _ = self._first(order, most, np.arange(len(self.keys)), order(ALL), NEVER)
        return found

    def _first(
        self, order: Callable[[At], Numbers], most: int, rows: Rows, keys: Numbers, least: float
    ) -> tuple[Rows, float]:
        """The first of these rows, and the key of the last of them; as they are once that is below the `least`."""
        lent, charged = _LENT, most
        while True:
            at = best(keys, most)
            last = float(keys[at[-1]]) if len(at) else NEVER
            first = rows[at]
            if last < least or not self.bounds[first].any():
                return first, last
            if self.unlent[first].any():
                at = best(keys, lent)
                self.lend(rows[at])
                lent *= 2
            else:
                at = best(keys, charged)
                self.charge(rows[at])
                charged *= 2
            keys[at] = order(rows[at])

    def exact(self) -> "Offer":
        """The same with every row worked out."""
        self.lend(np.flatnonzero(self.unlent))
        self.charge(np.flatnonzero(self.bounds))
        return self


class Lending(Offer):
    """To one who wants memory of the pool, or whose `own` bytes are at the cost of others.

    It begins with bounds: nobody gets more memory than with the most of each part of the time, or costs others less
    than without memory. A row is worked out when a search comes to it. `needs`: see `Columns.needs`; M is 1 where
    there is none. `cost`: what the newcomer does to those on the device of that row.
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
        rows = np.flatnonzero(self._number_of >= 0)
        self._factors, self._doubts = np.ones(len(columns.share)), np.zeros(len(columns.share))
        """M and its doubt, or the most and the least that they can be."""
        self._factors[rows], self._doubts[rows] = self._memory(rows, outlined=True)
        self.shares, self.uncertainties = np.empty(len(columns.share)), np.empty(len(columns.share))
        self.loss, self.payer, self.takes = columns.loss.copy(), columns.payer.copy(), columns.takes.copy()
        self.keys, self.told = np.empty(len(columns.share)), np.empty(len(columns.share))
        self.unlent, self.bounds = np.empty_like(self.takes), np.empty_like(self.takes)
        self._begin(ALL)
        self.changed = []
        self._fronts()
        self._seen, self._freed = len(columns.changed), len(columns.freed)

    def _begin(self, rows: At) -> None:
        """Takes the columns and what is known of memory, which is a bound: a claim more leaves less of it."""
        columns = self._columns
        self.loss[rows], self.payer[rows] = columns.loss[rows], columns.payer[rows]
        self.takes[rows], self.unlent[rows] = columns.takes[rows], self._number_of[rows] >= 0
        self.bounds[rows] = self.unlent[rows] | (columns.lends[rows] & (self._own > 0))
        self._put(rows)

    def _put(self, rows: At) -> None:
        columns = self._columns
        shares = columns.share[rows] * self._factors[rows]
        shared = columns.tenants[rows] > 0
        self.shares[rows] = shares
        self.uncertainties[rows] = combined_each(columns.of_idle[rows], self._doubts[rows], shared)
        fits = self.takes[rows] & (columns.free[rows] >= self._own)
        self.keys[rows] = np.where(fits, key_of(shares - self.loss[rows], shares), NEVER)
        self.told[rows] = columns.told_of(rows, shares)

    def refresh(self) -> None:
        """Takes into account who has come since, and who is gone after a trial: there more is left than was known."""
        columns = self._columns
        if self._seen == len(columns.changed):
            return
        changed = columns.changed[self._seen :]
        self._seen = len(columns.changed)
        self.changed += changed
        rows = np.array(changed, np.intp)
        self._factors[rows] = np.minimum(1.0, self._factors[rows] + _SLACK)
        self._doubts[rows] = np.maximum(0.0, self._doubts[rows] - _SLACK)
        if self._freed < len(columns.freed):
            freed = np.array(columns.freed[self._freed :], np.intp)
            self._freed = len(columns.freed)
            self._factors[freed], self._doubts[freed] = self._memory(freed, outlined=True)
        self._begin(rows)

    def lend(self, rows: Rows) -> None:
        """Works out the memory factor on these rows."""
        rows = rows[self.unlent[rows]]
        self._factors[rows], self._doubts[rows] = self._memory(rows)
        self.unlent[rows], self.bounds[rows] = False, self._columns.lends[rows] & (self._own > 0)
        self._put(rows)
        self.changed += rows.tolist()

    def charge(self, rows: Rows) -> None:
        """Works out what these rows cost others."""
        rows = rows[self.bounds[rows] & ~self.unlent[rows]]
        for row in rows.tolist():
            impact = self._cost(row, self._own)
            self.loss[row], self.payer[row] = impact.loss, impact.priority
            self.takes[row] &= impact.broken is None
        self.bounds[rows] = False
        self._put(rows)
        self.changed += rows.tolist()

    def _memory(self, rows: Rows, *, outlined: bool = False) -> tuple[Numbers, Numbers]:
        """M on these rows, and its doubt; `outlined`: the most and the least that these can be."""
        columns, numbers = self._columns, self._number_of[rows]
        factors, doubts = np.ones(len(rows)), np.zeros(len(rows))
        for (need, parts), number in self._needs.items():
            at = np.flatnonzero(numbers == number)
            if len(at):
                found = rows[at]
                available = columns.outline(found) if outlined else columns.available(found, parts)
                left = available - (columns.unseen[found] + self._own)[:, None]
                worth = memory_factors(need, left, 1.0 / (columns.tenants[found] + 1))
                factors[at] = np.minimum(1.0, worth + _SLACK) if outlined else worth
                doubts[at] = memory_doubts(need, factors[at])
        return factors, doubts
