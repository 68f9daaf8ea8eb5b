"""What was left of a device's memory for offline work over a window, in a few numbers. Pure: no clock, no I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PARTS = 32


@dataclass(frozen=True, slots=True)
class MemorySample:
    """A device's memory from then on. Bytes."""

    time: float
    """Seconds, monotonic clock."""
    available: int
    """What offline work could have of the pool."""


Stretch = tuple[float, MemorySample]
"""Seconds for which a sample holds, above zero."""


def memory_trace(samples: Sequence[MemorySample], end: float, window: float) -> list[int]:
    """The last `window` seconds before `end`, ordered by the memory, in equal parts: the mean of each, bytes.

    There are `PARTS`, or half as many, and so on, where that says the same; none where the samples cover no time of it.
    Samples are in order of time, none after `end`; each holds until the next one.
    """
    begin = end - window
    ends = [*(sample.time for sample in samples[1:]), end]
    stretches = [
        (until - max(begin, sample.time), sample)
        for sample, until in zip(samples, ends, strict=False)
        if until > max(begin, sample.time)
    ]
    return _fewest(_parts(stretches, sum(length for length, _ in stretches))) if stretches else []


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
