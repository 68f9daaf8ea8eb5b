"""What newcomers with so much memory of their own cost those who are there, for all devices side by side."""

import numpy as np

from rowen.scheduler.placement.fleet.claims import Impact
from rowen.scheduler.placement.fleet.columns import Columns, Flags


class Toll:
    """The columns' loss, payer and `takes` for one amount of own memory.

    Where that is at the cost of a claim, the columns are bounds: a newcomer without any costs less. What it is there is
    worked out for those rows that a search comes to.
    """

    def __init__(self, columns: Columns, *, counts: bool) -> None:
        self._columns, self._counts, self._seen = columns, counts, len(columns.changed)
        self.loss, self.payer, self.takes = columns.loss.copy(), columns.payer.copy(), columns.takes.copy()
        self.bounds: Flags = columns.lends & counts
        """Where it has not been worked out."""

    def refresh(self) -> None:
        """Takes into account who has come since."""
        columns = self._columns
        if self._seen < len(columns.changed):
            rows = np.array(list(set(columns.changed[self._seen :])), np.intp)
            self._seen = len(columns.changed)
            self.loss[rows], self.payer[rows] = columns.loss[rows], columns.payer[rows]
            self.takes[rows], self.bounds[rows] = columns.takes[rows], columns.lends[rows] & self._counts

    def charge(self, row: int, impact: Impact) -> None:
        """What the newcomer does on the device."""
        self.bounds[row] = False
        self.loss[row], self.payer[row] = impact.loss, impact.priority
        self.takes[row] &= impact.broken is None
