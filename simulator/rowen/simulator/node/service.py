"""One online service over a stretch of time: when its devices' gates are closed, and what memory it leaves."""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from rowen.crds.service.online_service import HarvestMemory
from rowen.simulator.arrays import Cells, Floats
from rowen.simulator.node.engine import NONE, Engine, Served, peak_tokens, serve
from rowen.simulator.node.gate import closed, cooldown_seconds
from rowen.simulator.node.intervals import NEVER, Intervals, union
from rowen.simulator.node.memory import Left, Mapped, Pool, left
from rowen.simulator.sources.source import Source

CELLS = 64
"""Of a bitmap between two edges."""
_ROUNDING = 1e-6
"""Of a handle: less is no use of it."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The devices of a service; all are alike."""

    devices: int
    """Over which the engine is spread: they are busy together and share its KV cache evenly."""
    pool_bytes: int
    """Of each: its memory less what the engine has for itself."""
    handle_bytes: int
    memory: HarvestMemory


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """What the next stretch needs of the one before."""

    served: Served = NONE
    """Requests whose gate is not open again."""
    mapped: Mapped = field(default_factory=Mapped)


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A service between the first edge and the last."""

    busy: Floats
    """Seconds with a request in flight, before each edge."""
    closed: Floats
    """Seconds with the gate closed, before each edge: busy time and cooldowns."""
    gate: Intervals
    """When it is closed."""
    cells: Cells
    """When it is closed, between each two edges: `CELLS` equal parts, the oldest in the lowest bit."""
    available: Floats
    """Bytes of a device's pool that the engine leaves, between each two edges."""
    reclaims: int
    requests: int
    """That have arrived."""

    def without_gate(self) -> "Stretch":
        """The same, but for when the gate is closed."""
        return replace(self, gate=NEVER)


class Feed(Protocol):
    """What keeps the online services busy."""

    def advance(
        self, service: int, engine: Engine, hardware: Hardware, edges: Floats, carry: Carry
    ) -> tuple[Stretch, Carry]:
        """The service, counted from 0, from the first edge to the last; edges are evenly spaced, in seconds."""


@dataclass(frozen=True, slots=True)
class RequestFeed:
    """Requests, and the engine that serves them."""

    source: Source

    def advance(
        self, service: int, engine: Engine, hardware: Hardware, edges: Floats, carry: Carry
    ) -> tuple[Stretch, Carry]:
        """See `Feed`."""
        end = float(edges[-1])
        arrived = self.source.between(service, float(edges[0]), end)
        served = serve(arrived, carry.served, engine)
        kv_bytes = peak_tokens(served, edges) * (engine.kv_bytes_per_token / hardware.devices)
        memory = memory_left(engine, hardware, kv_bytes, edges, carry.mapped)
        stretch = stretch_of(served.requests.arrivals, served.ends, engine, hardware, memory, edges, len(arrived))
        open_again = served.ends + cooldown_seconds(engine.decode_gap_seconds)
        return stretch, Carry(served.at(open_again > end), memory.end)


def memory_left(engine: Engine, hardware: Hardware, used: Floats, edges: Floats, mapped: Mapped) -> Left:
    """The pool, from the most bytes that the engine uses on each device between each two edges."""
    handle = hardware.handle_bytes
    pool = Pool(hardware.pool_bytes // handle, engine.pool_bytes // handle, hardware.memory)
    peaks = np.ceil(used / handle - _ROUNDING).astype(np.int64).tolist()
    return left(pool, peaks, float(edges[0]), float(edges[1] - edges[0]), mapped)


def stretch_of(
    begins: Floats, ends: Floats, engine: Engine, hardware: Hardware, memory: Left, edges: Floats, requests: int
) -> Stretch:
    """From the times between which requests are in flight, in any order."""
    start, end = float(edges[0]), float(edges[-1])
    gate = closed(begins, ends, cooldown_seconds(engine.decode_gap_seconds)).clipped(start, end)
    busy = union(begins, ends).clipped(start, end)
    available = np.array(memory.available, dtype=np.float64) * hardware.handle_bytes
    cells = _cells(gate, edges)
    return Stretch(busy.covered(edges), gate.covered(edges), gate, cells, available, memory.reclaims, requests)


def _cells(gate: Intervals, edges: Floats) -> Cells:
    """Each cell takes over what the ones before it were off by, as `rowen.crds.harvest.busy` does."""
    fine = np.linspace(edges[0], edges[-1], (len(edges) - 1) * CELLS + 1)
    cell = (edges[1] - edges[0]) / CELLS
    busy = np.diff(np.floor(gate.covered(fine) / cell + 0.5)) > 0.0
    return np.packbits(busy, bitorder="little").view("<u8")
