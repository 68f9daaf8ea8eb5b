"""How long steps may take so that each request keeps its TPOT."""

import math

from rowen.crds.ride.terms import LatencyBound
from rowen.runtime.coserve.planning.margin import Margin

_RESERVE = 0.1
"""Part of the bound that is not planned for: for what the engine does not see of a token's way to the client, and since
after a request's last gap comes none that could make up for it. Riders fill the rest, so each TPOT is near to it."""
_PARTS = 32
"""Of the time for a token: so exactly it is planned when the next one is due, and decisions are kept for each."""


class TokenPace:
    """The TPOT's bound, times a margin that feedback keeps (`Margin`), and how much of it running requests have left.

    Where the TPOT of a running request is above that so far, steps are shorter until it is not.
    """

    def __init__(self, bound: LatencyBound) -> None:
        self._margin = Margin(bound)
        self.due_in = math.inf
        """Seconds in which a running request needs its next token (`NextTokens`); whoever follows them keeps it."""

    @property
    def token_seconds(self) -> float:
        """So long may a request wait for each token, on average."""
        return self._margin.seconds * (1 - _RESERVE)

    @property
    def parts(self) -> int:
        """Of 32 of that, how many the next step may take."""
        left, whole = self.due_in, self.token_seconds
        return _PARTS if left >= whole else max(0, int(_PARTS * left / whole))

    @property
    def step_seconds(self) -> float:
        """So long may the next step take, with all that runs until the next one."""
        return self.parts / _PARTS * self.token_seconds

    @property
    def kept(self) -> bool:
        """Of the requests that have ended no more were late than the percentile allows."""
        return self._margin.kept

    def observe(self, seconds: float, of_riders: float) -> bool:
        """The TPOT of a request that has ended, and how much of it was riders' doing. True: the margin moved."""
        before = self._margin.value
        self._margin.observe(seconds, of_riders)
        return before != self._margin.value
