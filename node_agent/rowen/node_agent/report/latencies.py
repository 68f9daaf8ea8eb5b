"""Requests by latency, beside offline tenants and without, over windows that say something of an SLO."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rowen.crds.harvest.latency_counts import (
    LEAST_REQUESTS,
    PAST_SECONDS,
    RECENT_SECONDS,
    LatencyCounts,
    RequestCounts,
    cell_of,
)
from rowen.node_agent.devices.counts import Request
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

    def counts(self, now: float, seconds: int, *, offline: bool) -> tuple[Counter[int], Counter[int]]:
        """By time to first token and by time per output token, over a window of the slices that are over.

        So the window does not change with every request.
        """
        last = _slice_of(now)
        first = last - seconds // _SLICE_SECONDS
        ttft, tpot = Counter[int](), Counter[int]()
        for number, slice_ in self._slices.items():
            if first <= number < last:
                ttft.update(slice_.ttft[offline])
                tpot.update(slice_.tpot[offline])
        return ttft, tpot


def windows(devices: Sequence[Latencies], now: float) -> list[RequestCounts]:
    """What a report says of devices of one service and type, together.

    Windows without a request are left out, and so is the hour where ten minutes do.
    """
    found = [_window(devices, now, RECENT_SECONDS, offline=offline) for offline in (True, False)]
    alone = found[1]
    if not all(counts and counts.requests >= LEAST_REQUESTS for counts in (alone.ttft, alone.tpot)):
        found.append(_window(devices, now, PAST_SECONDS, offline=False))
    return [window for window in found if window.ttft or window.tpot]


def _window(devices: Sequence[Latencies], now: float, seconds: int, *, offline: bool) -> RequestCounts:
    counts = [device.counts(now, seconds, offline=offline) for device in devices]
    ttft, tpot = (sum((each[kind] for each in counts), Counter[int]()) for kind in (0, 1))
    return RequestCounts(offline=offline, seconds=seconds, ttft=LatencyCounts.of(ttft), tpot=LatencyCounts.of(tpot))


def _slice_of(seconds: float) -> int:
    return int(seconds // _SLICE_SECONDS)
