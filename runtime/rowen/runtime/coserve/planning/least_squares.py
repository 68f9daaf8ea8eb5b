"""Linear least squares with coefficients of 0 at least, of observations that come one after another."""

from collections.abc import Sequence
from copy import copy

import numpy as np

_DOUBT = 1e-4
"""Weight of the prior: the square of an observation's relative noise (5 %) over that of the prior's (500 %)."""
_ALIKE = 0.25
"""Weight with which neighbouring slopes are taken for equal."""
_START_SCALE = 1.0
_LEAST_SCALE = 0.01
_SCALE_STEP = 1.15
_OUTLIER = 3.0
"""Usual errors beyond which an observation counts less (Huber)."""
_EAGER = 64
"""Observations after each of which the coefficients are fitted; later after each of `_LAZY`."""
_LAZY = 8
_MOST_ROUNDS = 8
_DOUBTED = 0.001
"""Of what was seen, how much still counts where it may be of something else: three observations of that count more."""


class LeastSquares:
    """Recursive in the normal equations, with forgetting; errors are relative, large ones are weighed down."""

    def __init__(
        self, prior: Sequence[float], alike: Sequence[tuple[int, int]] = (), forgetting: float = 0.999
    ) -> None:
        """Starts with what is believed while nothing is known.

        Args:
            prior: Coefficients; above 0.
            alike: Pairs of coefficients, by their indices, that are alike until something says otherwise.
            forgetting: By which what was seen before counts less with each observation.
        """
        self._forgetting = forgetting
        self.coefficients = list(prior)
        self.count = 0
        self._scale = _START_SCALE
        start = np.asarray(prior, dtype=np.float64)
        doubt = _DOUBT / start**2
        self._prior = np.diag(doubt)
        self._wanted = doubt * start
        for first, second in alike:
            weight = _ALIKE / (prior[first] * prior[second])
            self._prior[[first, second], [first, second]] += weight
            self._prior[[first, second], [second, first]] -= weight
        self._normal = np.zeros_like(self._prior)
        self._moment = np.zeros_like(start)
        self._solved = start

    def doubted(self) -> "LeastSquares":
        """One that begins with these coefficients, and soon goes by what it sees itself."""
        found = copy(self)
        found._normal, found._moment = self._normal * _DOUBTED, self._moment * _DOUBTED
        found._scale, found.count = _START_SCALE, 0
        return found

    def value(self, features: Sequence[float]) -> float:
        """What the features come to."""
        return sum(map(float.__mul__, map(float, features), self.coefficients))

    def observe(self, features: Sequence[float], value: float) -> bool:
        """Takes an observation in; the value is above 0. True: the coefficients were fitted anew."""
        row = np.asarray(features, dtype=np.float64) / value
        error = abs(1.0 - float(row @ self._solved))
        weight = min(1.0, _OUTLIER * self._scale / error) if error > 0 else 1.0
        # Towards the median of the errors.
        self._scale *= _SCALE_STEP if error > self._scale else 1 / _SCALE_STEP
        self._scale = min(_START_SCALE, max(_LEAST_SCALE, self._scale))
        self._normal *= self._forgetting
        self._normal += weight * np.outer(row, row)
        self._moment *= self._forgetting
        self._moment += weight * row
        self.count += 1
        if self.count > _EAGER and self.count % _LAZY:
            return False
        self._fit()
        return True

    def _fit(self) -> None:
        """Solves, without those that come out negative, until none does."""
        matrix, right = self._normal + self._prior, self._moment + self._wanted
        free = np.ones(len(right), dtype=bool)
        solved = np.zeros_like(right)
        for _ in range(_MOST_ROUNDS):
            chosen = np.flatnonzero(free)
            solved[:] = 0.0
            solved[chosen] = np.linalg.solve(matrix[np.ix_(chosen, chosen)], right[chosen])
            if not (solved < 0).any():
                break
            free &= solved >= 0
        self._solved = np.maximum(solved, 0.0)
        self.coefficients = self._solved.tolist()
