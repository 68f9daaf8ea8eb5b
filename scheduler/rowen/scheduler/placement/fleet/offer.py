"""What all devices offer a newcomer, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rowen.scheduler.model.memory import MemoryNeed, memory_bounds, memory_doubts, memory_factors
from rowen.scheduler.model.prediction import combined_each
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet.claims import Impact
from rowen.scheduler.placement.fleet.columns import ALL, NEVER, At, Columns, Flags, Numbers, Rows, best, key_of
from rowen.scheduler.placement.fleet.front import Front

_LENT = 16
"""So many rows are worked out first: the factors of many devices are little work."""
_FRONTS = 128
"""So many are kept: every job may have constraints of its own."""
_SLACK = 1e-9
"""A bound is above what it is a bound of by more than rounding."""


@dataclass(slots=True)
class _Kept:
    """Which rows keep a promise."""

    flags: Flags
    seen: int
    """How many changes are in it."""


class Offer:
    """To one whose memory has all it wants, and is at nobody's cost: the columns as they are."""

    _by_promise = True
    """Whether jobs with different promises have fronts of their own."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.shares: Numbers = columns.share
        """Predicted fraction on each device alone, where the job's own memory has room."""
        self.loss, self.payer, self.takes = columns.loss, columns.payer, columns.takes
        self.keys: Numbers = columns.keys
        """Order in which they are taken at the best rate; `NEVER` where a newcomer is refused whatever its promise."""
        self.changed: list[int] = columns.changed
        """Rows that were changed, in order."""
        self._kept: dict[Promise, _Kept] = {}
        self._fronts: dict[tuple[Promise, Constraints | None], Front] = {}
        """By what is asked for; None where all open nodes meet the constraints."""
        self._front_told = Front(self.told, self.changed)

    def uncertainties(self, rows: At) -> Numbers:
        """Relative standard deviation of the share."""
        return self._columns.uncertainties[rows]

    def told(self, rows: At) -> Numbers:
        """Order in which they are told of; `NEVER` where nothing is placed."""
        return self._columns.told(rows, self.shares[rows])

    def keeps(self, promise: Promise) -> Flags:
        """Where the share clears the promise."""
        count, kept = len(self.changed), self._kept.get(promise)
        if kept is None:
            kept = self._kept[promise] = _Kept(self.shares >= promise.needs(self.uncertainties(ALL)), count)
        elif kept.seen < count:
            rows = np.array(self.changed[kept.seen :], np.intp)
            kept.flags[rows] = self.shares[rows] >= promise.needs(self.uncertainties(rows))
            kept.seen = count
        return kept.flags

    def refresh(self) -> None:
        """Takes into account who has come since."""

    def best(
        self,
        order: Callable[[At], Numbers],
        most: int,
        promise: Promise,
        constraints: Constraints,
        eligible: Flags | None,
    ) -> Rows:
        """The first rows of an order that puts no row above its key in `keys`; so many at most.

        `order`: the keys of those rows as they are now, largest first, `NEVER` for what is no place: where the
        promise is not kept, say, or pods with the constraints cannot run. `eligible`: where they can, None
        where all that is open will do.
        """
        return self._within(self._front_of(promise, constraints, eligible), order, most)

    def told_first(self, rows: Flags, most: int) -> Rows:
        """The first of these rows in the order in which they are told of; so many at most."""
        return self._within(self._front_told, lambda at: np.where(rows[at], self.told(at), NEVER), most)

    def _front_of(self, promise: Promise, constraints: Constraints, eligible: Flags | None) -> Front:
        """The front of those that may do: they may be few, and far from the first of all."""
        asked = promise if self._by_promise else NO_PROMISE
        kind = asked, None if eligible is None else constraints
        front = self._fronts.get(kind)
        if front is None:
            if len(self._fronts) >= _FRONTS:
                self._fronts.clear()

            def keys(at: At) -> Numbers:
                found = self.keys[at] if asked.sla is None else np.where(self.keeps(asked)[at], self.keys[at], NEVER)
                return found if eligible is None else np.where(eligible[at], found, NEVER)

            front = self._fronts[kind] = Front(keys, self.changed)
        return front

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
        self, _order: Callable[[At], Numbers], most: int, rows: Rows, keys: Numbers, _least: float
    ) -> tuple[Rows, float]:
        """The first of these rows, and the key of the last of them; as they are once that is below the `least`."""
        at = best(keys, most)
        return rows[at], float(keys[at[-1]]) if len(at) else NEVER

    def exact(self) -> "Offer":
        """The same with every row worked out."""
        return self


class Lending(Offer):
    """To one who wants memory of the pool, or whose `own` bytes are at the cost of others.

    There are many such offers, each for few jobs: these share a front, whatever they are promised.
    It begins with bounds: nobody gets more memory than with the most of each part of the time, or costs others less
    than without memory. A row is worked out when a search comes to it. `needs`: see `Columns.needs`; M is 1 where
    there is none. `cost`: what the newcomer does to those on the device of that row.
    """

    _by_promise = False

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
        self._factors[rows], self._doubts[rows] = self._outlined(rows)
        self.shares, self.keys = np.empty(len(columns.share)), np.empty(len(columns.share))
        self.loss, self.payer, self.takes = columns.loss.copy(), columns.payer.copy(), columns.takes.copy()
        self._unlent, self._bounds = np.empty_like(self.takes), np.empty_like(self.takes)
        """Where the share is a bound, and where the row is."""
        self._begin(ALL)
        self.changed = []
        self._front_told = Front(self.told, self.changed)
        self._seen, self._freed = len(columns.changed), len(columns.freed)

    def uncertainties(self, rows: At) -> Numbers:
        """Relative standard deviation of the share."""
        columns = self._columns
        return combined_each(columns.of_idle[rows], self._doubts[rows], columns.tenants[rows] > 0)

    def exact(self) -> "Lending":
        """The same with every row worked out."""
        self._lend(np.flatnonzero(self._unlent))
        self._charge(np.flatnonzero(self._bounds))
        return self

    def _first(
        self, order: Callable[[At], Numbers], most: int, rows: Rows, keys: Numbers, least: float
    ) -> tuple[Rows, float]:
        lent, charged = _LENT, most
        while True:
            at = best(keys, most)
            last = float(keys[at[-1]]) if len(at) else NEVER
            first = rows[at]
            if last < least or not self._bounds[first].any():
                return first, last
            if self._unlent[first].any():
                at = best(keys, lent)
                self._lend(rows[at])
                lent *= 2
            else:
                at = best(keys, charged)
                self._charge(rows[at])
                charged *= 2
            keys[at] = order(rows[at])

    def _begin(self, rows: At) -> None:
        """Takes the columns and what is known of memory, which is a bound: a claim more leaves less of it."""
        columns = self._columns
        self.loss[rows], self.payer[rows] = columns.loss[rows], columns.payer[rows]
        self.takes[rows], self._unlent[rows] = columns.takes[rows], self._number_of[rows] >= 0
        self._bounds[rows] = self._unlent[rows] | (columns.lends[rows] & (self._own > 0))
        self._put(rows)

    def _put(self, rows: At) -> None:
        columns = self._columns
        shares = columns.share[rows] * self._factors[rows]
        self.shares[rows] = shares
        fits = self.takes[rows] & (columns.free[rows] >= self._own)
        self.keys[rows] = np.where(fits, key_of(shares - self.loss[rows], shares), NEVER)

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
            self._factors[freed], self._doubts[freed] = self._outlined(freed)
        self._begin(rows)

    def _lend(self, rows: Rows) -> None:
        """Works out the memory factor on these rows."""
        rows = rows[self._unlent[rows]]
        self._factors[rows], self._doubts[rows] = self._memory(rows)
        self._unlent[rows], self._bounds[rows] = False, self._columns.lends[rows] & (self._own > 0)
        self._put(rows)
        self.changed += rows.tolist()

    def _charge(self, rows: Rows) -> None:
        """Works out what these rows cost others."""
        rows = rows[self._bounds[rows] & ~self._unlent[rows]]
        for row in rows.tolist():
            impact = self._cost(row, self._own)
            self.loss[row], self.payer[row] = impact.loss, impact.priority
            self.takes[row] &= impact.broken is None
        self._bounds[rows] = False
        self._put(rows)
        self.changed += rows.tolist()

    def _memory(self, rows: Rows) -> tuple[Numbers, Numbers]:
        """M on these rows, and its doubt."""
        columns = self._columns

        def worth(need: MemoryNeed, parts: int, at: Rows) -> Numbers:
            left = columns.available(at, parts) - (columns.unseen[at] + self._own)[:, None]
            return memory_factors(need, left, 1.0 / (columns.tenants[at] + 1))

        return self._by_need(rows, worth)

    def _outlined(self, rows: Rows) -> tuple[Numbers, Numbers]:
        """The most and the least that these can be."""
        columns = self._columns

        def most(need: MemoryNeed, _: int, at: Rows) -> Numbers:
            left = columns.outline(at) - (columns.unseen[at] + self._own)
            return np.minimum(1.0, memory_bounds(need, left, 1.0 / (columns.tenants[at] + 1)) + _SLACK)

        return self._by_need(rows, most)

    def _by_need(self, rows: Rows, worth: Callable[[MemoryNeed, int, Rows], Numbers]) -> tuple[Numbers, Numbers]:
        """What memory is worth on these rows, and its doubt: by what such jobs do there."""
        numbers = self._number_of[rows]
        factors, doubts = np.ones(len(rows)), np.zeros(len(rows))
        for (need, parts), number in self._needs.items():
            at = np.flatnonzero(numbers == number)
            if len(at):
                factors[at] = worth(need, parts, rows[at])
                doubts[at] = memory_doubts(need, factors[at])
        return factors, doubts
