"""Feedback that keeps a percentile of what was measured below a bound, whatever the predictor believes."""

import math

from rowen.crds.ride.terms import LatencyBound

_CUT = 0.2
"""By which a late observation, were none allowed, lowers the margin's logarithm."""
_LEAST = 0.5
_ROUNDING = 1e-9
_MOST_CREDIT = 3.0
"""Late observations in a row that a long good time makes up for."""


class Margin:
    """The part of a bound that riders are planned for, followed by quantile tracking (Robbins and Monro).

    Each late observation that riders are to blame for takes `_CUT` times the percentile off its logarithm, each other
    one adds `_CUT` times the rest: it stands still where just as many are late as the percentile allows.
    """

    def __init__(self, bound: LatencyBound) -> None:
        self._bound = bound.seconds
        self._allowed = 1 - bound.percentile / 100
        self._credit = 0.0
        self.value = 1.0
        """At most 1, at least a half."""
        self.seconds = bound.seconds
        """What may be planned for."""

    @property
    def kept(self) -> bool:
        """Of what was observed no more is late than the percentile allows."""
        return self._credit > -_ROUNDING

    def observe(self, seconds: float, of_riders: float) -> bool:
        """A latency, and how much of it was riders' doing. True: late for their sake."""
        late = seconds > self._bound
        self._credit = max(-_MOST_CREDIT, min(_MOST_CREDIT, self._credit + self._allowed - late))
        blamed = late and seconds - of_riders <= self._bound
        step = _CUT * ((1 - self._allowed) if blamed else -self._allowed)
        self.value = max(_LEAST, min(1.0, self.value * math.exp(-step)))
        self.seconds = self.value * self._bound
        return blamed
