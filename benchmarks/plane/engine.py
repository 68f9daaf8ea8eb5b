"""What an agent knows of its node's engine: requests, and how idle its devices were, in the agent's own accounts."""

from dataclasses import dataclass
from math import exp
from statistics import NormalDist

from rowen.node_agent.devices.counts import Request
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.report.idles import WINDOWS_SECONDS, LongIdles
from rowen.node_agent.report.latencies import Latencies

BURST_SECONDS = 5.0
BURSTS = 12
"""In a window: one every so often."""
_REQUESTS = 5
"""Of a burst."""
_KINDS = BURSTS * _REQUESTS
"""Requests are of so many latencies in turn, so that every window has them all: nothing moves where nothing happens."""
_PARTS = [NormalDist().inv_cdf(((7 * kind) % _KINDS + 0.5) / _KINDS) for kind in range(_KINDS)]
_TTFT = [exp(-2.0 + 0.8 * part) for part in _PARTS]
_TPOT = [exp(-4.0 + 0.3 * part) for part in _PARTS[::-1]]
_SEEN_SECONDS = 700.0
"""Before the agent began: more than the ten minutes for which requests are counted."""
_SAMPLES = 60


@dataclass(frozen=True)
class Burst:
    """The engine is busy. Times in seconds, monotonic clock."""

    number: int
    start: float
    end: float


class Engine:
    """Busy for the part `load` of every `BURST_SECONDS`, from `phase` on, all its devices together."""

    def __init__(self, pod: PodView, load: float, phase: float) -> None:
        self.pod, self.load = pod, load
        self.idles, self.latencies = LongIdles(), Latencies()
        self._phase = phase
        self._told: float | None = None

    def bursts(self, after: float, until: float) -> list[Burst]:
        """Those that have begun by `until`, and not ended by `after`."""
        first, last = int((after - self._phase) // BURST_SECONDS), int((until - self._phase) // BURST_SECONDS)
        starts = ((number, self._phase + number * BURST_SECONDS) for number in range(first, last + 1))
        found = (Burst(number, start, start + self.load * BURST_SECONDS) for number, start in starts)
        return [burst for burst in found if burst.end > after]

    def requests(self, after: float, until: float, *, beside: bool) -> tuple[Request, ...]:
        """Those that ended later than `after`, and by `until`. `beside`: beside an offline tenant."""
        return tuple(
            request
            for burst in self.bursts(after, until)
            for request in _requests(burst, beside=beside)
            if after < request.end <= until
        )

    def look(self, now: float, *, beside: bool) -> None:
        """The accounts are kept up to `now`. The first look enters an hour and a day before it, without a tenant."""
        if self._told is None:
            self._told, beside = now - _SEEN_SECONDS, False
            ages = sorted(seconds * part / _SAMPLES for seconds in WINDOWS_SECONDS for part in range(1, _SAMPLES + 1))
            for age in reversed(ages):
                self._idle(now - age)
        self._idle(now)
        self.latencies.add(self.requests(self._told, now, beside=beside), now, self.pod)
        self._told = now

    def _idle(self, moment: float) -> None:
        """Only differences of the counter count; windows of an hour have whole bursts, but for their ends."""
        self.idles.add(moment, (1.0 - self.load) * moment)


def _requests(burst: Burst, *, beside: bool) -> list[Request]:
    """One after the other, spread over the burst."""
    each = (burst.end - burst.start) / _REQUESTS
    found = []
    for index in range(_REQUESTS):
        number = burst.number * _REQUESTS + index
        kind, end = number % _KINDS, burst.start + each * (index + 1)
        found.append(Request(number, end - each, end, _TTFT[kind], _TPOT[kind], int(beside), beside))
    return found
