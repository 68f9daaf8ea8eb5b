"""Made-up requests: days and nights, and bursts. For a look at the simulator without a trace."""

from dataclasses import dataclass
from math import ceil, cos, floor, pi

import numpy as np

from rowen.simulator.requests import Requests, in_order, joined
from rowen.simulator.sources.source import generator

_WINDOW_SECONDS = 3600.0
_DAY_SECONDS = 86400.0
_DAY_AMPLITUDE = 0.7
_PHASE_SECONDS = 3 * 3600.0
_BURST_REQUESTS = 8.0
_BURST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Example:
    """Bursts of 8 requests in the mean, within 20 s each, that begin at random moments.

    Their rate follows the day: at its height 1.7 times the mean, at its lowest 0.3 times. Each service has its own
    height, drawn within three hours around noon, and its own mean, from half of `rate` to one and a half of it. Input
    tokens are log-normal around 700, output tokens around 150.
    """

    rate: float
    """Mean requests a second of each service."""
    seed: int

    def between(self, service: int, start: float, end: float) -> Requests:
        """See `Source`."""
        # A burst may last into the window after its own.
        windows = range(max(0, floor((start - _BURST_SECONDS) / _WINDOW_SECONDS)), ceil(end / _WINDOW_SECONDS))
        habits = generator(self.seed, service)
        mean = self.rate * habits.uniform(0.5, 1.5)
        height = _DAY_SECONDS / 2 + habits.uniform(-_PHASE_SECONDS / 2, _PHASE_SECONDS / 2)
        return joined([self._window(service, window, mean, height) for window in windows]).between(start, end)

    def _window(self, service: int, number: int, mean: float, height: float) -> Requests:
        start = number * _WINDOW_SECONDS
        day = 1.0 + _DAY_AMPLITUDE * cos(2 * pi * (start + _WINDOW_SECONDS / 2 - height) / _DAY_SECONDS)
        source = generator(self.seed, service, number + 1)
        bursts = source.poisson(mean * day * _WINDOW_SECONDS / _BURST_REQUESTS)
        sizes = source.geometric(1.0 / _BURST_REQUESTS, bursts)
        begins = np.repeat(start + source.uniform(0.0, _WINDOW_SECONDS, bursts), sizes)
        count = len(begins)
        arrivals = begins + source.uniform(0.0, _BURST_SECONDS, count)
        inputs = np.minimum(16000.0, np.ceil(source.lognormal(np.log(700.0), 0.9, count)))
        outputs = np.minimum(2000.0, np.ceil(source.lognormal(np.log(150.0), 0.9, count)))
        return in_order(Requests(arrivals, inputs, outputs))
