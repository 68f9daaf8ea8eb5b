"""The rows that come first by their keys: a search that ends among them looks at no other."""

from collections.abc import Callable, Sequence

import numpy as np

from rowen.scheduler.placement.fleet.columns import ALL, LAST, At, Numbers, Rows, best

_SIZE = 128


class Front:
    """The rows down to a certain one, by key and then by number, and some more.

    `keys`: those of some rows as they are now. `changed`, the rows in which these were changed in order, is the offer's
    own: it goes on to change them.
    """

    def __init__(self, keys: Callable[[At], Numbers], changed: Sequence[int]) -> None:
        self._keys, self._changed = keys, changed
        self._rows: Rows = np.empty(0, np.intp)
        self._seen, self._asked = 0, False
        self.floor, self._last = float("inf"), -1
        """Key and number of that one."""

    def rows(self) -> Rows:
        """Its rows now, in order."""
        if self._seen < len(self._changed):
            new = np.array(self._changed[self._seen :], np.intp)
            self._seen = len(self._changed)
            risen = new[self._keys(new) >= self.floor]
            if len(risen):
                self._rows = np.union1d(self._rows, risen)
        return self._rows

    def holds(self, row: int, key: float) -> bool:
        """Whether no row that is left out comes before this one with that key."""
        return key > self.floor or (key == self.floor and row <= self._last)

    @property
    def whole(self) -> bool:
        """Whether every row is in it that is a place: then what is not found in it is nowhere."""
        return self.floor == LAST

    def renew(self) -> None:
        """Begins anew with the first rows where too few of these are left, or too many have come.

        Not for the first search: there may be no other.
        """
        if not self._asked:
            self._asked = True
            return
        left = np.count_nonzero(self._keys(self._rows) >= self.floor)
        if 2 * left < _SIZE or len(self._rows) > 2 * _SIZE:
            keys = self._keys(ALL)
            first = best(keys, _SIZE)
            whole = len(first) < _SIZE
            self.floor, self._last = (LAST, -1) if whole else (float(keys[first[-1]]), int(first[-1]))
            self._rows, self._seen = np.sort(first), len(self._changed)
