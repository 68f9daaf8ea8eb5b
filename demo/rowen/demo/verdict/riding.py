"""What rode in a device's engine, from readings of its agent. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rowen.demo.verdict.counters import parse_counters
from rowen.demo.verdict.statistics import Span, clip, covered, union

# An engine tells its agent once a second what rode, and the agent counts it twice a second.
_LATE_SECONDS = 1.5
_TOKENS = "rowen_ride_tokens_total"
_STEPS = "rowen_steps_total"
_RIDING_STEPS = "rowen_riding_steps_total"


@dataclass(frozen=True)
class Ridden:
    """Tokens of riders that an engine worked through, and its steps."""

    forward: int = 0
    """Of fine-tuning, forward inside steps."""
    solo: int = 0
    """Of fine-tuning, forward while there were no requests."""
    backward: int = 0
    """Of fine-tuning."""
    rows: int = 0
    """Of batch rows."""
    steps: int = 0
    """All steps of the engine."""
    riding_steps: int = 0
    """Steps in which something rode."""

    @property
    def tuned(self) -> int:
        """Of fine-tuning, each once: what goes backward went forward before."""
        return self.forward + self.solo

    @property
    def tokens(self) -> int:
        """All, each once."""
        return self.tuned + self.rows

    def _values(self) -> tuple[int, ...]:
        return self.forward, self.solo, self.backward, self.rows, self.steps, self.riding_steps

    def __add__(self, other: "Ridden") -> "Ridden":
        """Both together."""
        return Ridden(*(one + another for one, another in zip(self._values(), other._values(), strict=True)))

    def since(self, before: "Ridden") -> "Ridden":
        """What has been added; an agent that was started again counts from 0."""
        added = [now - then for now, then in zip(self._values(), before._values(), strict=True)]
        return Ridden(*added) if min(added) >= 0 else self


@dataclass(frozen=True)
class RideReading:
    """The counters at a moment."""

    at: float
    """Unix time, seconds."""
    ridden: Ridden
    """Since the agent started."""


@dataclass(frozen=True)
class RideSummary:
    """What rode over a stretch of time."""

    share: float
    """Fraction of the time that lies in seconds in which anything did, by readings a second apart: an upper bound.

    A second with one token counts whole, and as it may be told late, so does what was before it.
    """
    ridden: Ridden


def parse_ridden(metrics: str) -> dict[str, Ridden]:
    """By device, from the agent's metrics. Raises `ValueError` for what are none."""
    kinds = [(_TOKENS, kind) for kind in ("forward", "solo", "backward", "rows")]
    keys = [*kinds, (_STEPS, ""), (_RIDING_STEPS, "")]
    found = parse_counters(metrics, {name for name, _ in keys})
    return {device: Ridden(*(of.get(key, 0) for key in keys)) for device, of in found.items()}


def added(readings: Sequence[RideReading]) -> list[tuple[Span, Ridden]]:
    """What rode from each reading to the next."""
    pairs = itertools.pairwise(readings)
    return [((before.at, after.at), after.ridden.since(before.ridden)) for before, after in pairs]


def total(readings: Sequence[RideReading]) -> Ridden:
    """What rode from the first reading to the last."""
    return sum((more for _, more in added(readings)), Ridden())


def riding_spans(readings: Sequence[RideReading]) -> list[Span]:
    """When something rode: of the time between two readings all if any, and before them what may be told late."""
    moved = [span for span, more in added(readings) if more.tokens or more.backward]
    return union((start - _LATE_SECONDS, end) for start, end in moved)


def told(readings: Sequence[RideReading], start: float, end: float) -> bool:
    """Whether what rode from `start` to `end` is known: counters lose nothing between a first and a last reading."""
    return bool(readings) and readings[0].at <= start and end <= readings[-1].at


def summarize(readings: Sequence[RideReading], start: float, end: float) -> RideSummary | None:
    """The stretch in figures; None without a reading in it."""
    within = [reading for reading in readings if start <= reading.at <= end]
    if not within:
        return None
    seconds = covered(clip(riding_spans(readings), start, end))
    return RideSummary(seconds / (end - start) if end > start else 0.0, total(within))
