"""The share of the device beside each step of an engine: said as it begins, and its effect measured at its end."""

from collections.abc import Iterable
from dataclasses import dataclass

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.next_tokens import NextTokens
from rowen.runtime.coserve.planning.slowdown import WHOLE
from rowen.runtime.coserve.planning.spatial import SharePlanner
from rowen.runtime.native import Online


@dataclass(frozen=True, slots=True)
class _Step:
    load: Load
    begun: float
    used: int
    """Tenths that offline work could use, and was there to, right after the share was said."""


class SharedSteps:
    """Of steps in which something is computed. Times are seconds of one monotonic clock."""

    def __init__(self, device: Online, planner: SharePlanner) -> None:
        self._device = device
        self._planner = planner
        self._steps: dict[int, _Step] = {}
        self._next_tokens = NextTokens(planner.token_pace)
        self._last_end: float | None = None
        """None: no request waits for a token since then."""

    def follow(self, ended: Iterable[str], stepping: Iterable[tuple[str, int]], now: float) -> None:
        """Before each step, also one that computes nothing: as `NextTokens.begin`.

        With asynchronous scheduling (vLLM has none on a CPU) a first token is taken for that of the step before.
        """
        for seconds, offline_seconds in self._next_tokens.begin(ended, stepping):
            self._planner.observe_tpot(seconds, offline_seconds)
        self._planner.token_pace.due_in = self._next_tokens.due_in(now)

    def begin(self, step: int, load: Load, now: float) -> None:
        """A step is handed to the worker. With asynchronous scheduling that is before the last one ended."""
        tenths = self._planner.share(load, occupied=self._device.tenants() > 0)
        if any(each.load.prefill_tokens for each in self._steps.values()):
            tenths = 0
        self._device.share(tenths)
        self._steps[step] = _Step(load, now, self._used())

    def end(self, step: int, now: float, unfinished: bool) -> None:
        """The output of a step is there; `unfinished`: so are requests that it did not finish."""
        begun = self._steps.pop(step, None)
        if begun is not None:
            self._measure(begun, now)
            self._last_end = now
            self._next_tokens.finish(now, self._planner.offline_seconds)
        if not unfinished:
            self._last_end = None

    def close(self) -> None:
        """No share is said any more."""
        self._device.share(0)

    def _measure(self, step: _Step, now: float) -> None:
        used, last = self._used(), self._last_end
        if last is not None and step.load.decode_rows:
            self._planner.observe_gap(step.load, now - last, beside=used > 0 or step.used > 0)
        if used != step.used:
            return
        seconds = now - (step.begun if last is None else max(step.begun, last))
        if used == 0:
            self._planner.observe_alone(step.load, seconds)
        elif used < WHOLE:
            self._planner.observe_beside(step.load, seconds, used)

    def _used(self) -> int:
        return self._device.granted() if self._device.tenants() else 0
