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
_CHEAP_TOKENS = 16
_CHEAP_PART = 0.25
"""Of what a part takes whatever is in it: up to 16 tokens that take no more are in it, however little time there is."""


class PartModel:
    """Learns what one guest's parts of one phase take: linear in tokens and what they attend to."""

    def __init__(self, squares: LeastSquares | None = None, token_context: float = 0.0) -> None:
        """Starts with what is believed; by itself with a default."""
        self._squares = squares or LeastSquares(_PRIOR, forgetting=_FORGETTING)
        self.token_context = token_context
        """What each token of the last part attended to."""
        self._most = 0

    def newcomer(self) -> "PartModel":
        """Another guest's: begins with what this one knows, which may be wrong of it, and with small parts."""
        return PartModel(self._squares.doubted(), self.token_context)

    def seconds(self, tokens: int, context: int) -> float:
        """What a part takes."""
        return self._squares.value((1.0, tokens, context))

    @property
    def least_seconds(self) -> float:
        """What the smallest one takes."""
        return self.seconds(1, int(self.token_context))

    def observe(self, tokens: int, context: int, seconds: float) -> None:
        """A part was measured."""
        self._most = max(self._most, tokens)
        self.token_context = context / tokens
        self._squares.observe((1.0, tokens, context), seconds)

    def tokens(self, seconds: float) -> int:
        """Tokens of the largest part that ends in time, 1 at least; at most twice as many as ever were measured.

        Where a part takes so long whatever is in it, a few tokens more are in it than have time: one token at a time
        would pay for all of that each time.
        """
        start, token, attended = self._squares.coefficients
        each = token + self.token_context * attended
        if each <= 0:
            fitting = float(MOST_TOKENS)
        else:
            fitting = max((seconds - start) / each, min(_CHEAP_TOKENS, _CHEAP_PART * start / each))
        return max(1, int(min(fitting, MOST_TOKENS, max(_FIRST_TOKENS, _GROWTH * self._most))))
