"""What a part takes that runs without the engine."""

from rowen.runtime.coserve.planning.least_squares import LeastSquares

_PRIOR = (0.002, 0.0005, 1e-6)
"""Seconds of a part, of each token, of each token attended to."""
_FORGETTING = 0.95
"""Some 20 parts."""
MOST_TOKENS = 512
"""Of a part: more at once are no faster."""
_FIRST_TOKENS = 8
_GROWTH = 2


class PartModel:
    """Learns what the parts of one phase take: linear in tokens and what they attend to."""

    def __init__(self) -> None:
        self._squares = LeastSquares(_PRIOR, forgetting=_FORGETTING)
        self._most = 0

    def seconds(self, tokens: int, context: int) -> float:
        """What a part takes."""
        return self._squares.value((1.0, tokens, context))

    def observe(self, tokens: int, context: int, seconds: float) -> None:
        """A part was measured."""
        self._most = max(self._most, tokens)
        self._squares.observe((1.0, tokens, context), seconds)

    def tokens(self, seconds: float, token_context: float) -> int:
        """Tokens of the largest part that ends in time, 1 at least; at most twice as many as ever were measured."""
        start, token, attended = self._squares.coefficients
        each = token + token_context * attended
        fitting = (seconds - start) / each if each > 0 else MOST_TOKENS
        return max(1, int(min(fitting, MOST_TOKENS, max(_FIRST_TOKENS, _GROWTH * self._most))))
