"""What came of a promise: it is scored once, over the first minutes in which the job ran."""

from dataclasses import dataclass, replace

SCORED_SECONDS = 600.0
"""Throughput of a single minute says more of bursts than of the prediction."""
LEAST_SECONDS = 60.0
"""Of a promise that ended before: less says nothing."""


@dataclass(frozen=True, slots=True)
class Score:
    """A promise, as far as it has been measured."""

    promised: float | None = None
    """Fraction of the throughput alone, beside the tenants of the time; None: not known."""
    seconds: float = 0.0
    """That were measured, by the node's clock."""
    tokens: int = 0
    """Made in them."""
    closed: bool = False
    """Whether it has been scored."""

    def measured(self, seconds: float, tokens: int) -> "Score":
        """With one report more."""
        return self if self.closed else replace(self, seconds=self.seconds + seconds, tokens=self.tokens + tokens)

    @property
    def ended(self) -> "Score":
        """The promise is not scored (again)."""
        return replace(self, closed=True)

    def due(self, least: float) -> bool:
        """Whether it can be scored, `least` seconds being enough."""
        return not self.closed and self.seconds >= least


NOT_SCORED = Score()


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A prediction and what came of it, as fractions of solo throughput."""

    workload: str
    predicted: float
    measured: float
    weight: float = 1.0
    """Part of a whole score: a promise that ended early was measured for less."""


def error_of(score: Score, workload: str, solo: float | None, least: float) -> ErrorSample | None:
    """The promise against what was measured, once `least` seconds were. `solo`: tokens per second alone, if known."""
    if not score.due(least) or not score.promised or solo is None:
        return None
    weight = min(1.0, score.seconds / SCORED_SECONDS)
    return ErrorSample(workload, score.promised, score.tokens / score.seconds / solo, weight)
