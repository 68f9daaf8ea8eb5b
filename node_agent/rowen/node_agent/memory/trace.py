"""What was left of a device's memory for offline work over a window, in a few numbers. Pure: no clock, no I/O."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rowen.crds.node_harvest import MemoryTrace

PARTS = 32


@dataclass(frozen=True, slots=True)
class MemorySample:
    """A device's memory from then on. Bytes."""

    time: float
    """Seconds, monotonic clock."""
    used: int
    """In use by the online engine."""
    headroom: int
    """Mapped for the online engine, in use or ahead of its need."""
    reclaimable: int
    """Held by offline tenants."""
    free: int
    """Nobody's."""
    reclaims: int
    """Times that memory was taken from offline work, counted up."""
    tokens_lost: int
    """Tokens that offline work lost by it, counted up."""

    @property
    def available(self) -> int:
        """What offline work could have of the pool."""
        return self.reclaimable + self.free


Stretch = tuple[float, MemorySample]
"""Seconds for which a sample holds, above zero."""


def memory_trace(samples: Sequence[MemorySample], end: float, window: float) -> MemoryTrace | None:
    """The last `window` seconds before `end`; None where the samples cover no time of it.

    Samples are in order of time, none after `end`; each holds until the next one.
    """
    begin = end - window
    ends = [*(sample.time for sample in samples[1:]), end]
    stretches = [
        (until - max(begin, sample.time), sample)
        for sample, until in zip(samples, ends, strict=False)
        if until > max(begin, sample.time)
    ]
    if not stretches:
        return None
    seconds = sum(length for length, _ in stretches)
    parts = _fewest(_parts(stretches, seconds))
    held = [sample for _, sample in stretches]
    return MemoryTrace(
        seconds=seconds,
        available_bytes=parts,
        used_bytes=_mean(stretches, seconds, lambda sample: sample.used),
        headroom_bytes=_mean(stretches, seconds, lambda sample: sample.headroom),
        reclaims=_increase(sample.reclaims for sample in held),
        tokens_lost=_increase(sample.tokens_lost for sample in held),
    )


def _parts(stretches: Iterable[Stretch], seconds: float) -> list[int]:
    """Mean memory in each of equal parts of the time, which is ordered by the memory."""
    size = seconds / PARTS
    parts: list[int] = []
    room, filled = size, 0.0
    for length, sample in sorted(stretches, key=lambda stretch: stretch[1].available):
        rest = length
        while rest > room and len(parts) < PARTS - 1:
            parts.append(round((filled + sample.available * room) / size))
            rest -= room
            room, filled = size, 0.0
        filled += sample.available * rest
        room -= rest
    return [*parts, round(filled / size)]


def _fewest(parts: list[int]) -> list[int]:
    """The same in half as many equal parts, as often as two neighbours each are alike."""
    while len(parts) > 1 and parts[::2] == parts[1::2]:
        parts = parts[::2]
    return parts


def _mean(stretches: Iterable[Stretch], seconds: float, value: Callable[[MemorySample], int]) -> int:
    return round(sum(length * value(sample) for length, sample in stretches) / seconds)


def _increase(counter: Iterable[int]) -> int:
    """Of a counter that may begin anew."""
    return sum(max(0, later - earlier) for earlier, later in pairwise(counter))
