"""What an online service leaves to offline work on a device, event by event: time with an open gate, and memory.

The engine's requests come from a trace (`traffic/`); it is busy while it holds any. The gate opens a cooldown after the
last one, as on a node. The pool is divided by the product's own headroom policy, twice a second.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from traffic.kv_use import Engine, Holding, holdings, tokens_held
from traffic.traffic import traffic

from rowen.crds.harvest.busy import busy_cells, grid
from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.headroom import HeadroomDecision, Observation, decide
from rowen.node_agent.memory.trace import MemorySample, memory_trace
from rowen.scheduler.device import DeviceView
from rowen.scheduler.model.idle import IdleWindow

PERIOD_SECONDS = 0.5
COOLDOWN_SECONDS = 0.05
# As in `headroom.py`: a model of 8 billion parameters on one large GPU.
ENGINE = Engine(prefill=20_000.0, decode=40.0)
POOL = 4000
"""Handles of a device."""
PEAK_PART = 0.8
KEPT = {"code": 4, "conv": 48, "bursty": 1}
"""Load → how many devices share its requests, in turn: each leaves some idle time then."""

Span = tuple[float, float]


@dataclass(frozen=True)
class Device:
    """A device under a load. Times in seconds from its start, memory in handles."""

    closed: tuple[Span, ...]
    """When its gate is closed."""
    headroom: tuple[int, ...]
    """What the online side has, in each period."""
    pool: int

    def available(self, period: int) -> int:
        """What offline work may have in a period."""
        return self.pool - self.headroom[min(period, len(self.headroom) - 1)]

    def open_between(self, begin: float, end: float) -> list[Span]:
        """When the gate is open within a time."""
        edges = [begin, *(edge for span in self.closed for edge in span if begin < edge < end), end]
        middles = [((a + b) / 2, (a, b)) for a, b in pairwise(edges)]
        starts = [span for span in self.closed if span[1] > begin and span[0] < end]
        return [stretch for middle, stretch in middles if not any(a <= middle < b for a, b in starts)]


def _closed(held: Sequence[Holding]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for holding in sorted(held, key=lambda one: one.start):
        end = holding.end + COOLDOWN_SECONDS
        if spans and holding.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((holding.start, end))
    return tuple(spans)


def _headroom(needs: Sequence[int], pool: int) -> tuple[int, ...]:
    """By the node's policy, as in `headroom.py`."""
    service, found = HarvestMemory(), list[int]()
    decision: HeadroomDecision | None = None
    headroom, taken = needs[0], 0
    for number, used in enumerate(needs):
        before = headroom
        if decision and used >= service.pressure_threshold * headroom:
            headroom = decision.growth
        taken += headroom - before
        seen = Observation(pool=pool, headroom=headroom, used=used, taken=taken)
        decision = decide(decision.state if decision else None, seen, number * PERIOD_SECONDS, service)
        taken += max(0, decision.state.headroom - headroom)
        headroom = min(pool, max(used, decision.state.headroom))
        found.append(headroom)
    return tuple(found)


def device(load: str, seconds: float, seed: str, shift: float = 0.0) -> Device:
    """A device under so much of a load; of two with one seed the second may be late by `shift` seconds.

    The service's model is such that its cache takes `PEAK_PART` of the pool at its peak.
    """
    requests = traffic(load, seconds, random.Random(f"{load} {seed}"))[:: KEPT[load]]
    held = holdings(requests, ENGINE)
    tokens = tokens_held(held, PERIOD_SECONDS, seconds)
    needs = [math.ceil(count * PEAK_PART * POOL / max(tokens)) for count in tokens]
    closed = tuple((begin + shift, end + shift) for begin, end in _closed(held))
    return Device(closed, _headroom(needs, POOL), POOL)


def report(seen: Device, name: str, begin: float, end: float, longer: Sequence[float] = ()) -> DeviceView:
    """What the scheduler sees of a window, by the agent's own sketches, with longer windows that end with it."""
    over = grid(end, end - begin)
    free = _open_part(seen, begin, end)
    held = range(math.floor(begin / PERIOD_SECONDS), math.ceil(end / PERIOD_SECONDS))
    samples = [MemorySample(number * PERIOD_SECONDS, seen.available(number)) for number in held]
    idles = [IdleWindow(length, _open_part(seen, end - length, end)) for length in longer if end - length >= 0.0]
    return DeviceView(
        "n", name, "gpu", seen.pool, free, busy_cells(seen.closed, over), tuple(idles),
        tuple(memory_trace(samples, end, end - begin)),
    )  # fmt: skip


def _open_part(seen: Device, begin: float, end: float) -> float:
    return sum(b - a for a, b in seen.open_between(begin, end)) / (end - begin)
