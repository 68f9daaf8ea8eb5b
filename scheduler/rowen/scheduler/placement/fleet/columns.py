"""All devices side by side, one row each: what a search over thousands of them looks at."""

import sys
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.memory import MemoryNeed
from rowen.scheduler.model.prediction import combined
from rowen.scheduler.placement.fleet.claims import Impact, sharing
from rowen.scheduler.side_by_side import counts, side_by_side
from rowen.scheduler.snapshot import NodeView

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
At = Rows | slice
"""Some rows, or all."""
ALL = slice(None)

EMPTY, SHARED, FULL = 0, 1, 2
_GROUP = 4.0
"""Between the ranks of two groups: more than a share can make up for."""
_FULL = FULL * _GROUP
_ROUNDING = 1e-9
"""In devices: what is smaller is rounding."""
LAST = -sys.float_info.max
"""The least key of a place."""
NEVER = float("-inf")
"""The key, or bound, of what is no place."""
_FEW = 8
"""So many are looked for one after the other: less work than an order of all."""


class Columns:
    """The columns, by name of node, then by id of device."""

    def __init__(self, nodes: Sequence[NodeView], refusals: Sequence[str]) -> None:
        self._views = nodes
        sizes, figures = counts(nodes), side_by_side(nodes)
        self._starts: Rows = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
        self._nodes: Rows = np.repeat(np.arange(len(nodes), dtype=np.intp), sizes)
        self.share, self.deviation, self.memory, self.room = (figures[:, at].copy() for at in range(4))
        """Fraction that a newcomer gets whose memory has all it wants; standard deviation of the idle time; bytes of
        the device, and those beside what the online pod may have."""
        self.of_idle = np.zeros(len(self.share))
        """Relative standard deviation of the idle time."""
        np.divide(self.deviation, self.share, out=self.of_idle, where=self.share > 0.0)
        self.uncertainties = self.of_idle.copy()
        """Relative standard deviation of the share."""
        self._parts: Rows = figures[:, 6].astype(np.intp)
        self.known: Flags = figures[:, 4] > 0.0
        """Whether it is known what the online pod may have."""
        self._slots: Rows = np.array([view.slots for view in nodes], np.intp)
        slots = (self._slots > 0)[self._nodes]
        opened = np.array([not refusal for refusal in refusals], np.bool_)[self._nodes]
        self.open: Flags = (figures[:, 5] > 0.0) & opened
        """Whether anything may be placed there."""
        self.takes: Flags = self.open & slots
        """Whether a newcomer has a slot there and breaks no promise."""
        self.keys: Numbers = np.where(self.takes, key_of(self.share, self.share), NEVER)
        """Order in which a newcomer takes them that gets the share as it is; `NEVER` where none does."""
        self.free = self.room.copy()
        """Bytes that nobody holds."""
        self.loss = np.zeros(len(self._nodes))
        """What a newcomer costs those who are there (`Impact.loss`)."""
        self.payer = np.zeros(len(self._nodes), np.int64)
        """Highest priority of those who pay."""
        self.tenants = np.zeros(len(self._nodes), np.intp)
        """Claims on it."""
        self.unseen = np.zeros(len(self._nodes))
        """Bytes that come off what the pool lends by the report (`DeviceState.unseen`)."""
        self.lends: Flags = np.zeros(len(self._nodes), np.bool_)
        """Whether a newcomer's own memory is at the cost of a claim: loss, payer and `takes` are of one without any."""
        self.lending = False
        """Whether it is so on any of them."""
        self._outlines = figures[:, 7:].T.copy()
        self._available: dict[int, tuple[Numbers, Flags]] = {}
        """By the parts in which it is told: memory over time of those rows that have been read, and which these are."""
        self.changed: list[int] = []
        """Rows that were changed, in order."""
        self.freed: list[int] = []
        """Rows that a claim has left, in order: more of memory is lent there than was."""
        self._group = np.where(slots, 0.0, _FULL)
        """Place in an explanation, least first: empty, shared and full devices, in each by the share."""

    @cached_property
    def kinds(self) -> tuple[list[tuple[str, int, int]], Rows]:
        """Devices that are alike (type, bytes, parts in which their memory over time is told), and that of each row."""
        types, of_rows = self.types
        sizes, size_of = np.unique(self.memory, return_inverse=True)
        most = int(self._parts.max(initial=0)) + 1
        codes = (of_rows * len(sizes) + size_of) * most + self._parts
        found, kind_of = np.unique(codes, return_inverse=True)
        kinds = [
            (types[code // most // len(sizes)], int(sizes[code // most % len(sizes)]), int(code % most))
            for code in found
        ]
        return kinds, kind_of.astype(np.intp)

    def holders(self, devices: int, own: int) -> Flags:
        """Of the nodes, which have so many open devices with so many bytes beside the online pod, and as many slots.

        Whoever is there.
        """
        able = self.open & (self.room >= own)
        enough: Flags = np.bincount(self._nodes[able], minlength=len(self._views)) >= devices
        return enough & (self._slots >= devices)

    @property
    def trades(self) -> bool:
        """Whether memory changes its owner on any device, so that a newcomer's own may be at somebody's cost."""
        return bool(self._parts.any())

    @cached_property
    def types(self) -> tuple[list[str], Rows]:
        """Types of devices, and that of each row by its place among them."""
        codes: dict[str, int] = {}
        known: dict[tuple[str, ...], Rows] = {}
        parts: list[Rows] = [np.empty(0, np.intp)]
        for view in self._views:
            types = view.types
            if types not in known:
                known[types] = np.array([codes.setdefault(type_, len(codes)) for type_ in types], np.intp)
            parts.append(known[types])
        return list(codes), np.concatenate(parts)

    def available(self, rows: Rows, parts: int) -> Numbers:
        """Memory over time of these rows (`DeviceView.available`), which is told in so many parts."""
        if parts not in self._available:
            self._available[parts] = np.empty((len(self.share), parts)), np.zeros(len(self.share), np.bool_)
        found, read = self._available[parts]
        new = rows[~read[rows]]
        if len(new):
            found[new], read[new] = [self._trace(row) for row in new.tolist()], True
        return np.take(found, rows, axis=0)

    def outline(self, rows: Rows) -> Numbers:
        """The most that these rows lent, a row for each part of the time."""
        return np.take(self._outlines, rows, axis=1)

    def _trace(self, row: int) -> Numbers:
        number = self.node_of(row)
        view = self._views[number]
        return view.trace(view.id_at(row - self.first(number)))

    def first(self, node: int) -> int:
        """The first row of the node of that number."""
        return int(self._starts[node])

    def node_of(self, row: int) -> int:
        """The number of the row's node."""
        return int(self._nodes[row])

    def on(self, nodes: Collection[int]) -> Flags:
        """Which rows are on these nodes, by number."""
        flags = np.zeros(len(self._starts) - 1, np.bool_)
        flags[list(nodes)] = True
        return flags[self._nodes]

    def closed_rows(self) -> Rows:
        """The rows on which nothing is placed."""
        return np.flatnonzero(~self.open)

    def needs(self, appetite: Appetite) -> tuple[MemoryNeed | None, ...]:
        """What jobs with the appetite do on devices of each kind; None where memory does not change its owner."""
        return tuple(appetite.on(type_, memory) if parts else None for type_, memory, parts in self.kinds[0])

    def lend(self, row: int, unseen: int, *, lends: bool) -> None:
        """What becomes of the pool's memory there after a claim; before `change`."""
        if unseen < self.unseen[row]:
            self.freed.append(row)
        self.unseen[row], self.lends[row] = unseen, lends
        self.lending |= lends

    def change(
        self, row: int, tenants: int, level: IdleLevel, free: int, impact: Impact, group: int, *, takes: bool
    ) -> None:
        """What a row is after a claim. `group`: EMPTY, SHARED or FULL; `takes`: whether one more has a slot."""
        self.changed.append(row)
        if tenants < self.tenants[row]:
            self.freed.append(row)
        part = sharing(tenants + 1)
        share = level.fraction * part
        self.tenants[row], self.share[row], self.free[row] = tenants, share, free
        self.uncertainties[row] = combined(level, 0.0, part)
        self.loss[row], self.payer[row] = impact.loss, impact.priority
        self.takes[row] = takes and self.open[row] and impact.broken is None
        self.keys[row] = key_of(share - impact.loss, share) if self.takes[row] else NEVER
        self._group[row] = group * _GROUP

    def nth_best(self, column: Numbers, rows: Flags, count: int) -> Numbers:
        """Of each node the `count`-th largest value among its rows of these; `NEVER` where there are fewer."""
        values = np.where(rows, column, NEVER)
        values = values[np.lexsort((-values, self._nodes))]
        at = self._starts[:-1] + count - 1
        found = np.full(len(at), NEVER)
        enough = at < self._starts[1:]
        found[enough] = values[at[enough]]
        return found

    def largest(self, column: Numbers) -> Numbers:
        """Of each node the largest value among its rows; 0 where it has none. For values above 0."""
        found = np.zeros(len(self._starts) - 1)
        np.maximum.at(found, self._nodes, column)
        return found

    def told(self, rows: At, shares: Numbers) -> Numbers:
        """Order of an explanation, where the newcomer gets these shares: the largest come first, NaN last.

        `NEVER` where nothing is placed.
        """
        order = shares - self._group[rows]
        return np.where(self.open[rows], np.where(np.isnan(order), LAST, order), NEVER)

    def most(self, column: Numbers, rows: Flags) -> int | None:
        """The first of these rows with the largest value; None where there are none."""
        return int(np.where(rows, column, NEVER).argmax()) if rows.any() else None


def key_of(gain: "float | Numbers", fraction: "float | Numbers") -> Any:
    """Orders places by gain, then by fraction: the gain in units of `_ROUNDING`, with half the fraction behind it.

    Of fractions some 6 digits count, as many as a float has left.
    """
    return np.rint(gain / _ROUNDING) + 0.5 * fraction


def best(keys: Numbers, most: int) -> Rows:
    """The rows by key, then by number, so many at most; none whose key is `NEVER`."""
    if most > _FEW:
        rows = np.flatnonzero(keys > NEVER)
        found = keys[rows]
        if most < len(rows):
            first = found >= np.partition(found, -most)[-most]
            rows, found = rows[first], found[first]
        return rows[np.argsort(-found, kind="stable")[:most]]
    keys, few = keys.copy(), list[int]()
    while len(few) < min(most, len(keys)):
        row = int(keys.argmax())
        if keys[row] == NEVER:
            break
        few.append(row)
        keys[row] = NEVER
    return np.array(few, np.intp)
