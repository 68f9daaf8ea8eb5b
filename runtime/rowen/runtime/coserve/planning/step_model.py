"""What a step takes, as a linear function of what it is made of (Harli, Eq. 2 and 3).

Harli's `bs * b0 + c0 + bs * k0 * seqlen`, for each kind of rows, except that the rows of the linear layers are one
batch, whoever they belong to, and that a batch's time is no straight line: weights are read once, and kernels work in
blocks of rows. So that term is piecewise linear in the number of tokens.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.least_squares import LeastSquares

KNOTS = (0, 1, 4, 8, 16, 32, 64, 128, 256)
"""Tokens of a step at which the slope may change; the last one's goes on."""
_PIECES = len(KNOTS)
_STEP_SECONDS = 0.02
_TOKEN_SECONDS = 0.001
_CONTEXT_SECONDS = 1e-6
_PRIOR = (_STEP_SECONDS, *[_TOKEN_SECONDS] * _PIECES, 0.0005, *[_CONTEXT_SECONDS] * 4, 0.002, 0.0002, 0.002, 0.0005)
"""In the order of `features`: an engine of some billion parameters on a CPU. Only the first steps go by it."""


def _piece(tokens: int, index: int) -> float:
    return float(max(0, min(tokens, KNOTS[index + 1] if index + 1 < _PIECES else tokens) - KNOTS[index]))


def features(load: Load) -> list[float]:
    """What a step's time is linear in."""
    tokens = load.decode_rows + load.prefill_tokens + load.ride_tokens + load.row_tokens
    return [
        1.0,
        *[_piece(tokens, index) for index in range(_PIECES)],
        float(load.decode_rows),
        float(load.decode_context),
        float(load.prefill_context),
        float(load.ride_context),
        float(load.row_context),
        float(load.ride_tokens > 0),
        float(load.ride_tokens),
        float(load.prefill_tokens > 0),
        float(load.row_tokens),
    ]


class StepModel:
    """Learns what steps take."""

    def __init__(self) -> None:
        self._squares = LeastSquares(_PRIOR, [(index, index + 1) for index in range(1, _PIECES)])
        self.count = 0
        self._take(self._squares.coefficients)

    def observe(self, load: Load, seconds: float) -> bool:
        """A step was measured. True: predictions differ now."""
        self.count += 1
        if not self._squares.observe(features(load), seconds):
            return False
        self._take(self._squares.coefficients)
        return True

    def _take(self, values: Sequence[float]) -> None:
        self._constant = values[0]
        self._slopes = values[1 : 1 + _PIECES]
        heights = [0.0]
        for (low, high), slope in zip(pairwise(KNOTS), self._slopes, strict=False):
            heights.append(heights[-1] + (high - low) * slope)
        self._heights = heights
        (
            self._decode_row,
            self._decode_context,
            self._prefill_context,
            self._ride_context,
            self._row_context,
            self._ride,
            self._ride_token,
            self._prefill,
            self._row_token,
        ) = values[1 + _PIECES :]

    def base(self, load: Load) -> float:
        """Seconds of what does not depend on how many tokens ride, for `with_ride`."""
        return (
            self._constant
            + load.decode_rows * self._decode_row
            + load.decode_context * self._decode_context
            + load.prefill_context * self._prefill_context
            + load.row_context * self._row_context
            + load.row_tokens * self._row_token
            + (self._prefill if load.prefill_tokens else 0.0)
        )

    def with_ride(self, base: float, tokens: int, ride_tokens: int, ride_context: float) -> float:
        """Seconds of a step of so many tokens beside those that ride."""
        rows = tokens + ride_tokens
        index = bisect_right(KNOTS, rows) - 1
        seconds = base + self._heights[index] + (rows - KNOTS[index]) * self._slopes[index]
        if ride_tokens:
            seconds += self._ride + ride_tokens * self._ride_token + ride_context * self._ride_context
        return seconds

    def stages(self, load: Load) -> tuple[float, float]:
        """Seconds that a step takes without the window in it, and that the window adds."""
        tokens, base = load.decode_rows + load.prefill_tokens + load.row_tokens, self.base(load)
        alone = self.with_ride(base, tokens, 0, 0.0)
        if not load.ride_tokens:
            return alone, 0.0
        return alone, self.with_ride(base, tokens, load.ride_tokens, load.ride_context) - alone
