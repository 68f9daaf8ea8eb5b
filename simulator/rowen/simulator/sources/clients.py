"""Requests drawn from ServeGen's clients."""

from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.requests import EMPTY, Requests, joined
from rowen.simulator.sources.source import generator
from rowen.simulator.traces.servegen import WINDOW_SECONDS, Client, ClientWindow

_MOST_PARTS = 30
"""Each of three times the requests that are expected in a window, drawn while it is not full."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Each service serves one client that is drawn, at a mean rate that is set, from the start of the client's trace.

    A client's rates are multiplied by one number, so that they have the mean `rate`. After the trace's end it begins
    anew. Times between arrivals are drawn window by window: none spans two of them.
    """

    clients: tuple[Client, ...]
    rate: float
    """Mean requests a second of each service."""
    seed: int

    def between(self, service: int, start: float, end: float) -> Requests:
        """See `Source`."""
        client = self.clients[int(generator(self.seed, service).integers(len(self.clients)))]
        windows = range(floor(start / WINDOW_SECONDS), ceil(end / WINDOW_SECONDS))
        found = joined([self._window(client, service, window) for window in windows])
        return found.between(start, end)

    def _window(self, client: Client, service: int, number: int) -> Requests:
        window = client.windows[number % len(client.windows)]
        if window.rate == 0.0:
            return EMPTY
        source = generator(self.seed, service, number + 1)
        speed = self.rate / client.mean_rate
        times = _arrivals(window, WINDOW_SECONDS * speed, source) / speed
        given, made = client.lengths_at(number % len(client.windows) * WINDOW_SECONDS)
        start = number * WINDOW_SECONDS
        return Requests(times + start, given.draw(len(times), source), made.draw(len(times), source))


def _arrivals(window: ClientWindow, seconds: float, source: np.random.Generator) -> Floats:
    """Arrivals of a renewal process within so many seconds.

    As many seconds again run before them: at once after a request there are more than the mean of a bursty client.
    A client so bursty that they do not end after many times what is expected falls silent there.
    """
    parts: list[Floats] = []
    reached = 0.0
    count = max(16, ceil(3.0 * window.rate * seconds))
    while reached < 2.0 * seconds and len(parts) < _MOST_PARTS:
        if window.family == "Gamma":
            gaps = source.gamma(window.shape, window.scale, count)
        else:
            gaps = window.scale * source.weibull(window.shape, count)
        parts.append(reached + np.cumsum(np.maximum(gaps, 1e-6)))
        reached = float(parts[-1][-1])
    times = np.concatenate(parts) - seconds
    return times[(times >= 0.0) & (times < seconds)]
