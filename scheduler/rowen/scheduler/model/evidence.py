"""The throughput by memory, as it is learned from jobs that run: pairs of memory over a window and tokens in it.

φ is taken as straight between five knots, at quarters of what the job wants. So the mean of φ over a window is a
weighted sum of means that need only the trace, and the weights are found by least squares, without any window kept:

    rate / T_solo = c₀ + Σⱼ cⱼ · mean_t clip(4 · m(t) / want − (j − 1), 0, 1),    cⱼ ≥ 0 for j ≥ 1

What is assumed before (the prior) counts as a few seconds of evidence, the throughput alone as minutes in which the job
had all that it wants: the weights have a sum of 1. The loss κ cannot be told from φ by such pairs (the mean shortfall
is a sum of the same means), so both are learned as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rowen.scheduler.model.memory import MemoryCurve, MemoryNeed

STEPS = 4
_SIZE = STEPS + 1
_PAIRS = _SIZE * (_SIZE + 1) // 2
_PRIOR_SECONDS = 10.0
"""Granted seconds that the prior counts as: rates of a minute scatter by 5 %, rises of a curve by an eighth."""
_WHOLE_SECONDS = 600.0
"""Granted seconds that the throughput alone counts as, which is the rate with all the memory that the job wants."""
_SURE_SECONDS = 300.0
"""Granted seconds after which half of the doubt is left."""
_MOST_SECONDS = 3600.0
"""Granted seconds of evidence at most: older evidence fades."""
_LEAST_DOUBT = 0.05

Features = tuple[float, ...]
"""1, and the mean of each step of the curve over the time, in [0, 1]."""
NO_FEATURES: Features = (0.0,) * _SIZE

Number = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """Sums over windows, each weighted by its granted seconds."""

    gram: Annotated[tuple[Number, ...], Field(min_length=_PAIRS, max_length=_PAIRS)] = (0.0,) * _PAIRS
    """Products of two features, the upper triangle row by row; the first is the granted seconds."""
    moment: Annotated[tuple[Number, ...], Field(min_length=_SIZE, max_length=_SIZE)] = (0.0,) * _SIZE
    """Products of a feature and the tokens per granted second."""

    @property
    def seconds(self) -> float:
        """Granted seconds behind it, up to a limit."""
        return self.gram[0]

    def updated(self, features: Features, rate: float, granted: float) -> "MemoryEvidence":
        """With one more window: `rate` in tokens per granted second."""
        keep = min(1.0, _MOST_SECONDS / (self.seconds + granted))
        pairs = [a * b for at, a in enumerate(features) for b in features[at:]]
        return MemoryEvidence(
            tuple(keep * (old + granted * pair) for old, pair in zip(self.gram, pairs, strict=True)),
            tuple(keep * (old + granted * rate * x) for old, x in zip(self.moment, features, strict=True)),
        )


def features(available: Sequence[int], want_bytes: int) -> Features:
    """Of memory over time, in equal parts of it; `want_bytes` above zero."""
    part = STEPS * np.asarray(available, float)[:, None] / want_bytes - np.arange(STEPS)
    return (1.0, *np.clip(part, 0.0, 1.0).mean(axis=0).tolist())


@lru_cache(maxsize=4096)
def learned(prior: MemoryNeed, evidence: MemoryEvidence, solo: float) -> MemoryNeed:
    """The need after the evidence; `solo`: tokens per second alone, above zero.

    The evidence's knots are taken as parts of the prior's `want_bytes`, above zero.
    """
    assumed = _weights(prior)
    upper = np.zeros((_SIZE, _SIZE))
    upper[np.triu_indices(_SIZE)] = evidence.gram
    gram = upper + np.triu(upper, 1).T + _PRIOR_SECONDS * np.eye(_SIZE) + _WHOLE_SECONDS
    moment = np.asarray(evidence.moment) / solo + _PRIOR_SECONDS * assumed + _WHOLE_SECONDS
    weights = _solved(gram, moment)
    whole = float(weights.sum())
    if whole <= 0.0:
        return prior
    fractions = np.cumsum(weights) / whole
    knots = prior.want_bytes * np.arange(_SIZE) / STEPS
    part = _SURE_SECONDS / (_SURE_SECONDS + evidence.seconds)
    doubt = max(_LEAST_DOUBT, prior.doubt * part)
    return MemoryNeed(
        MemoryCurve(tuple(zip(knots.tolist(), fractions.tolist(), strict=True))), prior.want_bytes, doubt=doubt
    )


def _weights(need: MemoryNeed) -> NDArray[np.float64]:
    """Of a curve with its loss: the value at the first knot, then the rise to each next one."""
    knots = need.want_bytes * np.arange(_SIZE) / STEPS
    worth = need.curve.at(knots) - need.loss * (1.0 - np.arange(_SIZE) / STEPS)
    return np.diff(worth, prepend=0.0)


def _solved(gram: NDArray[np.float64], moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares without a rise below zero: the one that would fall most is held at 0 and the rest found anew."""
    free = np.ones(_SIZE, dtype=bool)
    while True:
        weights = np.zeros(_SIZE)
        weights[free] = np.linalg.solve(gram[np.ix_(free, free)], moment[free])
        worst = 1 + int(np.argmin(weights[1:]))
        if weights[worst] >= 0.0:
            return weights
        free[worst] = False
