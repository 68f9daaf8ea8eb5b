"""What a prediction has to clear before a job's SLA is promised."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.model.profile import PredictionError


@dataclass(frozen=True, slots=True)
class Promise:
    """A job's SLA, and what predictions of its class have been off by."""

    sla: float | None = None
    """None: best effort."""
    error: PredictionError = field(default_factory=PredictionError)

    def margin(self, uncertainty: float) -> float:
        """What a prediction of that relative standard deviation must have above the SLA; 0 for best effort."""
        return 0.0 if self.sla is None else self.error.margin(self.sla, uncertainty)

    def need(self, uncertainty: float = 0.0) -> float:
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
