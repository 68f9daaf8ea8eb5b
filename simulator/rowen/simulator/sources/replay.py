"""A trace of requests, for every service from another moment on, again and again."""

from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from rowen.simulator.requests import EMPTY, Requests, joined
from rowen.simulator.sources.source import generator


@dataclass(frozen=True, slots=True)
class Replay:
    """The trace in a circle. Each service begins at a moment of it that is drawn.

    `load` is the rate as a multiple of the trace's. Below 1, each request is kept with that probability; above, several
    copies with other moments of beginning are laid over one another. Either way bursts become smoother: requests that
    are kept at random come the more independently the fewer they are, and copies even one another out.
    """

    trace: Requests
    load: float
    seed: int

    @property
    def period(self) -> float:
        """Seconds after which the trace begins anew: one mean gap behind its last request."""
        return self.trace.span * len(self.trace) / max(1, len(self.trace) - 1) or 1.0

    def between(self, service: int, start: float, end: float) -> Requests:
        """See `Source`."""
        copies = ceil(self.load)
        parts = []
        for copy in range(copies):
            keep = min(1.0, self.load - copy)
            offset = generator(self.seed, service, copy).uniform(0.0, self.period)
            first, last = floor((start + offset) / self.period), ceil((end + offset) / self.period)
            for turn in range(first, last):
                begin = turn * self.period - offset
                found = self._kept(service, copy, turn, keep).shifted(begin)
                parts.append(found.between(start, end))
        return joined(parts) if parts else EMPTY

    def _kept(self, service: int, copy: int, turn: int, keep: float) -> Requests:
        if keep >= 1.0:
            return self.trace
        source = generator(self.seed, service, copy, turn + 1)
        return self.trace.at(np.flatnonzero(source.random(len(self.trace)) < keep))
