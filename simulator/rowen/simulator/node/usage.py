"""Services that a trace of device usage describes, without any requests."""

from dataclasses import dataclass

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.node.engine import NONE, Engine
from rowen.simulator.node.gate import cooldown_seconds
from rowen.simulator.node.service import Carry, Hardware, Stretch, memory_left, stretch_of
from rowen.simulator.sources.source import generator
from rowen.simulator.traces.alibaba import Usage


@dataclass(frozen=True, slots=True)
class UsageFeed:
    """Each service is one container of the trace, in turn, from a moment on that is drawn, again and again.

    The busy part of each sample lies at its beginning, in one piece: where in a sample a device was busy is not known.
    What the container used beyond the engine's own memory counts as its part of the pool.
    """

    usages: tuple[Usage, ...]
    period: float
    """Seconds after which the trace begins anew."""
    seed: int

    def advance(
        self, service: int, engine: Engine, hardware: Hardware, edges: Floats, carry: Carry
    ) -> tuple[Stretch, Carry]:
        """See `Feed`."""
        usage = self.usages[service % len(self.usages)]
        offset = generator(self.seed, service).uniform(0.0, self.period)
        start, end = float(edges[0]), float(edges[-1])
        turns = np.arange(np.floor((start + offset) / self.period) - 1, np.ceil((end + offset) / self.period))
        begins = (turns[:, None] * self.period - offset + usage.times).ravel()
        ends = begins + np.tile(usage.lengths * usage.duty, len(turns))
        keep = (begins < end) & (ends + cooldown_seconds(engine.decode_gap_seconds) > start) & (ends > begins)
        used = np.maximum(0.0, np.tile(usage.memory, len(turns)) - engine.memory_bytes)
        memory = memory_left(engine, hardware, _peaks(begins, used, edges), edges, carry.mapped)
        return stretch_of(begins[keep], ends[keep], engine, hardware, memory, edges, 0), Carry(NONE, memory.end)


def _peaks(times: Floats, values: Floats, edges: Floats) -> Floats:
    """Most of the values between each two edges; each holds until the next."""
    first = np.maximum(0, np.searchsorted(times, edges[:-1], side="right") - 1)
    last = np.maximum(first + 1, np.searchsorted(times, edges[1:], side="left"))
    return np.array([values[begin:end].max() for begin, end in zip(first, last, strict=True)])
