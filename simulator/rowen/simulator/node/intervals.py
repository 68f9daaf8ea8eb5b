"""Stretches of time as two sorted arrays: begins and ends, disjoint."""

from dataclasses import dataclass

import numpy as np

from rowen.simulator.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Disjoint stretches of time, in order. Seconds."""

    begins: Floats
    ends: Floats

    def __len__(self) -> int:
        return len(self.begins)

    def clipped(self, start: float, end: float) -> "Intervals":
        """What of them lies in [start, end]."""
        begins, ends = np.maximum(self.begins, start), np.minimum(self.ends, end)
        keep = begins < ends
        return Intervals(begins[keep], ends[keep])

    def covered(self, edges: Floats) -> Floats:
        """Seconds of them before each edge. `edges` are ascending."""
        if not len(self):
            return np.zeros(len(edges))
        times = np.stack((self.begins, self.ends), axis=1).ravel()
        lengths = np.cumsum(self.ends - self.begins)
        seconds = np.stack((lengths - (self.ends - self.begins), lengths), axis=1).ravel()
        return np.asarray(np.interp(edges, times, seconds), dtype=np.float64)


NEVER = Intervals(np.empty(0), np.empty(0))


def union(begins: Floats, ends: Floats) -> Intervals:
    """The time that at least one of the stretches covers; they come in any order. Those that touch become one."""
    if not len(begins):
        return NEVER
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    first = np.flatnonzero(np.concatenate(([True], begins[1:] > reached[:-1])))
    last = np.concatenate((first[1:] - 1, [len(begins) - 1]))
    return Intervals(begins[first], reached[last])


def either(groups: list[Intervals]) -> Intervals:
    """The time that at least one of the groups covers."""
    if len(groups) == 1:
        return groups[0]
    return union(np.concatenate([group.begins for group in groups]), np.concatenate([group.ends for group in groups]))
