"""What a device did over the last minutes."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from rowen.crds.harvest.spatial import Spatial
from rowen.node_agent.devices.backend import Gate
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.idles import LongIdles
from rowen.node_agent.report.shares import spatial, until

_MOST_SAMPLES = 2048


class _Sample(NamedTuple):
    """The device's counters at a moment. Seconds."""

    time: float
    idle: float
    harvested: float
    shared: float


class Window:
    """Requests, closes and counters of one device over a sliding window. Times in seconds, monotonic clock."""

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self.closings: deque[Closing] = deque()
        self._samples: deque[_Sample] = deque()
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
        sample = _Sample(counts.now, counts.idle_seconds, counts.harvested_seconds, counts.shared_seconds)
        self._samples.append(sample)
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
        for closing, end in until(closings):
            if closing.closed >= self._since:
                yield closing
            elif end > self._since:
                yield replace(closing, closed=self._since, acknowledged=None)

    def _forget(self, before: float) -> None:
        while self.requests and self.requests[0].end < before:
            self.requests.popleft()
        over = sum(1 for _ in takewhile(lambda found: found[1] < before, until(self.closings)))
        for _ in range(over):
            self.closings.popleft()
        # One sample at or before the beginning stays, so that the difference spans the whole window.
        while len(self._samples) > 1 and self._samples[1].time <= before:
            self._samples.popleft()

    @property
    def covered(self) -> float:
        """Seconds that the fractions speak of: the window, and less after an engine has attached."""
        return self._samples[-1].time - self._samples[0].time if self._samples else 0.0

    def fractions(self) -> tuple[float, float]:
        """Fraction of the window in which offline work might run, and in which it did."""
        if self.covered <= 0.0:
            return 0.0, 0.0
        first, last = self._samples[0], self._samples[-1]
        idle, harvested = (last.idle - first.idle) / self.covered, (last.harvested - first.harvested) / self.covered
        return min(1.0, max(0.0, idle)), min(1.0, max(0.0, harvested))

    def spatial(self) -> Spatial | None:
        """What offline work might use of the device beside requests; None: nothing."""
        if self.covered <= 0.0:
            return None
        first, last = self._samples[0], self._samples[-1]
        return spatial(self.closings, first.time, last.time, last.shared - first.shared)
