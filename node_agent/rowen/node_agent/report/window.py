"""What a device did over the last minutes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rowen.node_agent.devices.backend import Gate
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.idles import LongIdles

_MOST_SAMPLES = 2048


class Window:
    """Requests, closes and counters of one device over a sliding window. Times in seconds, monotonic clock."""

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self.closings: deque[Closing] = deque()
        self._samples: deque[tuple[float, float, float]] = deque()
        self.memory: deque[MemorySample] = deque()
        self.idles = LongIdles()
        self._request_cursor = 0
        self._closing_cursor = 0
        self._attached = False
        self._since = float("-inf")

    @property
    def sampled(self) -> bool:
        """Whether the device has been read at all."""
        return bool(self._samples)

    def update(self, gate: Gate, seconds: float) -> tuple[DeviceCounts, list[Request], list[Closing]]:
        """Reads the device. Returns its counters, and what has ended since the last call."""
        counts = gate.counts()
        self._restart_on_attach(counts)
        requests = list(gate.requests(self._request_cursor))
        closings = list(gate.closings(self._closing_cursor))
        ended = [closing for closing in closings if closing.opened is not None]
        if requests:
            self._request_cursor = requests[-1].number
        while self.closings and self.closings[-1].number > self._closing_cursor:
            self.closings.pop()
        if ended:
            self._closing_cursor = ended[-1].number
        self.requests.extend(requests)
        self.closings.extend(self._since_attached(closings))
        self._samples.append((counts.now, counts.idle_seconds, counts.harvested_seconds))
        self.idles.add(counts.now, counts.idle_seconds)
        self._forget(counts.now - seconds)
        return counts, requests, ended

    def remember(self, sample: MemorySample, seconds: float) -> None:
        """Keeps what was seen of the device's memory, `_MOST_SAMPLES` times in the window at most."""
        if self.memory and sample.time - self.memory[-1].time < seconds / _MOST_SAMPLES:
            return
        self.memory.append(sample)
        # One sample at or before the beginning stays, since it holds until the next.
        while len(self.memory) > 1 and self.memory[1].time <= sample.time - seconds:
            self.memory.popleft()

    def _restart_on_attach(self, counts: DeviceCounts) -> None:
        """The time before an engine attached says nothing of how idle that engine leaves its device."""
        attached = counts.online_processes > 0
        if attached and not self._attached:
            self._samples.clear()
            self.idles.restart()
            self.memory.clear()
            self.closings.clear()
            self._since = counts.now
        self._attached = attached

    def _since_attached(self, closings: Iterable[Closing]) -> Iterator[Closing]:
        """What of them lies after that; of one that began before it, nobody waited for the beginning."""
        for closing in closings:
            if closing.closed >= self._since:
                yield closing
            elif closing.opened is None or closing.opened > self._since:
                yield replace(closing, closed=self._since, acknowledged=None)

    def _forget(self, before: float) -> None:
        while self.requests and self.requests[0].end < before:
            self.requests.popleft()
        while self.closings and (self.closings[0].opened or before) < before:
            self.closings.popleft()
        # One sample at or before the beginning stays, so that the difference spans the whole window.
        while len(self._samples) > 1 and self._samples[1][0] <= before:
            self._samples.popleft()

    @property
    def covered(self) -> float:
        """Seconds that the fractions speak of: the window, and less after an engine has attached."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0.0

    def fractions(self) -> tuple[float, float]:
        """Fraction of the window in which offline work might run, and in which it did."""
        return fractions(tuple(self._samples))


def fractions(samples: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Idle and harvested fraction from samples of (time, idle seconds, harvested seconds)."""
    if not samples or samples[-1][0] <= samples[0][0]:
        return 0.0, 0.0
    span = samples[-1][0] - samples[0][0]
    idle = (samples[-1][1] - samples[0][1]) / span
    harvested = (samples[-1][2] - samples[0][2]) / span
    return min(1.0, max(0.0, idle)), min(1.0, max(0.0, harvested))
