"""A device's requests by latency, beside offline tenants and without, over windows that say something of an SLO."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rowen.crds.latency_counts import (
    LEAST_REQUESTS,
    PAST_SECONDS,
    RECENT_SECONDS,
    LatencyCounts,
    RequestCounts,
    cell_of,
)
from rowen.node_agent.devices.device import Request
from rowen.node_agent.kubelet.pods import PodView

_SLICE_SECONDS = 30
"""Windows move on by so much, so that a report says something new of them no more often."""


@dataclass
class _Slice:
    """Requests that have ended within half a minute: by latency, and by whether an offline tenant was there."""

    ttft: dict[bool, Counter[int]] = field(default_factory=lambda: {True: Counter(), False: Counter()})
    tpot: dict[bool, Counter[int]] = field(default_factory=lambda: {True: Counter(), False: Counter()})

    def add(self, request: Request) -> None:
        self.ttft[request.tenant_present][cell_of(request.ttft)] += 1
        if request.tpot is not None:
            self.tpot[request.tenant_present][cell_of(request.tpot)] += 1


class Latencies:
    """Counts of one device's requests, for one service. Times in seconds, monotonic clock."""

    def __init__(self) -> None:
        self._slices: dict[int, _Slice] = {}
        self._service: tuple[str, str | None] | None = None

    def add(self, requests: Iterable[Request], now: float, engine: PodView | None) -> None:
        """Requests that have ended since the last call, on the engine of that pod; None: not known yet, or gone."""
        service = (engine.namespace, engine.service) if engine else None
        if service is not None and self._service not in (None, service):
            self._slices.clear()
        self._service = service or self._service
        last = _slice_of(now)
        first = last - PAST_SECONDS // _SLICE_SECONDS
        for request in requests:
            number = _slice_of(request.end)
            # The times are the engine's own.
            if first <= number <= last:
                self._slices.setdefault(number, _Slice()).add(request)
        self._slices = {number: slice_ for number, slice_ in self._slices.items() if number >= first}

    def windows(self, now: float) -> list[RequestCounts]:
        """What a report says; windows without a request are left out, and so is the hour where ten minutes do."""
        found = [self._window(now, offline, RECENT_SECONDS) for offline in (True, False)]
        alone = found[1]
        if not all(counts and counts.requests >= LEAST_REQUESTS for counts in (alone.ttft, alone.tpot)):
            found.append(self._window(now, False, PAST_SECONDS))
        return [window for window in found if window.ttft or window.tpot]

    def _window(self, now: float, offline: bool, seconds: int) -> RequestCounts:
        """The slices that are over, so that the window does not change with every request."""
        last = _slice_of(now)
        first = last - seconds // _SLICE_SECONDS
        ttft, tpot = Counter[int](), Counter[int]()
        for number, slice_ in self._slices.items():
            if first <= number < last:
                ttft.update(slice_.ttft[offline])
                tpot.update(slice_.tpot[offline])
        return RequestCounts(offline=offline, seconds=seconds, ttft=LatencyCounts.of(ttft), tpot=LatencyCounts.of(tpot))


def _slice_of(seconds: float) -> int:
    return int(seconds // _SLICE_SECONDS)
