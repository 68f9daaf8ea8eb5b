"""What an engine's steps were made of over the window, and what rode in them. Pure: no clock, no I/O."""

from collections import deque
from dataclasses import dataclass

from rowen.crds.harvest.co_serving import CoServing, StepFigures
from rowen.crds.ride.messages import StepSums
from rowen.crds.text.digits import significant
from rowen.node_agent.ride.view import EngineView

_DIGITS = 3
_SAMPLES = 60
"""In a window; it is longer than it says by one part in so many at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """What was added within some time."""

    seconds: float
    sums: StepSums


def _added(before: StepSums, sums: StepSums) -> StepSums | None:
    """None: some counter has fallen, so that they are another engine's."""
    added = {name: getattr(sums, name) - getattr(before, name) for name in StepSums.model_fields}
    return StepSums(**added) if min(added.values()) >= 0 else None


class StepWindow:
    """Counters of a device's engine, now and then. Times in seconds, monotonic clock."""

    def __init__(self) -> None:
        self._source: object = None
        self._samples: deque[tuple[float, StepSums]] = deque()
        self._latest: tuple[float, StepSums] | None = None

    def begin(self, source: object) -> None:
        """Forgets what another one's counters told."""
        if source != self._source:
            self._source, self._latest = source, None
            self._samples.clear()

    def add(self, now: float, source: object, sums: StepSums, window: float) -> StepSums:
        """Keeps a sample. `source`: whose counters they are. Returns what has been added since the last one."""
        self.begin(source)
        added = _added(self._latest[1], sums) if self._latest else None
        if added is None:
            self._samples.clear()
        self._latest = now, sums
        if not self._samples or now - self._samples[-1][0] >= window / _SAMPLES:
            self._samples.append(self._latest)
        # One sample at or before the beginning stays, so that the difference spans the whole window.
        while len(self._samples) > 1 and self._samples[1][0] <= now - window:
            self._samples.popleft()
        return added or StepSums()

    def span(self) -> Span | None:
        """What was added over the window; None: nothing is known."""
        if self._latest is None or self._latest[0] <= self._samples[0][0]:
            return None
        (begin, before), (end, sums) = self._samples[0], self._latest
        added = _added(before, sums)
        return Span(end - begin, added) if added else None


def step_figures(span: Span | None) -> StepFigures | None:
    """Means per step; None where there were no steps."""
    if span is None or span.sums.steps == 0:
        return None
    sums = span.sums
    return StepFigures(
        per_second=significant(sums.steps / span.seconds, _DIGITS),
        seconds=significant(sums.seconds / sums.steps, _DIGITS),
        decode_rows=significant(sums.decode_rows / sums.steps, _DIGITS),
        prefill_tokens=significant(sums.prefill_tokens / sums.steps, _DIGITS),
    )


def co_serving(engine: EngineView | None, span: Span | None) -> CoServing | None:
    """What rides in an engine; None where it takes no riders in."""
    if engine is None:
        return None
    if span is None:
        return CoServing(seats=engine.seats, ended=engine.ended)
    sums = span.sums

    def rate(tokens: int) -> float:
        return significant(tokens / span.seconds, _DIGITS)

    return CoServing(
        seats=engine.seats,
        riding_fraction=significant(min(1.0, sums.riding_steps / max(1, sums.steps)), _DIGITS),
        forward_tokens_per_second=rate(sums.forward_tokens),
        solo_tokens_per_second=rate(sums.solo_tokens),
        backward_tokens_per_second=rate(sums.backward_tokens),
        row_tokens_per_second=rate(sums.row_tokens),
        ended=engine.ended,
    )
