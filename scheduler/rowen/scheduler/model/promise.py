"""What a prediction has to clear before a job's SLA is promised."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.model.profile import PredictionError


@dataclass(frozen=True)
class Promise:
    """A job's SLA, and what predictions of its class have been off by; a key of many look-ups, so its hash is kept."""

    sla: float | None = None
    """None: best effort."""
    error: PredictionError = field(default_factory=PredictionError)

    def __hash__(self) -> int:
        """Worked out once."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.sla, self.error))

    def margin(self, uncertainty: float) -> float:
        """What a prediction of that relative standard deviation must have above the SLA; 0 for best effort."""
        return 0.0 if self.sla is None else self.error.margin(self.sla, uncertainty)

    def need(self, uncertainty: float) -> float:
        """Least prediction at which the SLA is promised; 0 for best effort. More uncertainty never needs less."""
        return 0.0 if self.sla is None else self.sla + self.error.margin(self.sla, uncertainty)

    def needs(self, uncertainties: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of many predictions."""
        if self.sla is None:
            return np.zeros_like(uncertainties)
        bounds = self.error.bounds_with(uncertainties)
        found: NDArray[np.float64] = self.sla + self.sla * bounds / (1.0 - bounds)
        return found


NO_PROMISE = Promise()
