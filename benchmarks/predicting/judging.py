"""How far predictions are from what was measured."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from predicting.measured import Measured
from reporting.report import Missing

from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor

COLD = ((1, 8), (9, 32), (33, 128), (129, 512))
"""First and last of the steps of a predictor that has just begun."""
_ROUNDS = 20_000
_NEAR = 32
"""Steps within which the machine counts as the same."""
_ROOM = 3.0
"""Bound of the steps of which it is decided, over what they take: so that windows have room."""


@dataclass(frozen=True)
class Errors:
    """Of predictions, against what was measured."""

    mean: float
    """Of the absolute errors, as a fraction of what was measured."""
    median: float
    p95: float
    r_squared: float
    steps: int


def errors(predicted: Sequence[float], measured: Sequence[float]) -> Errors:
    """Of predictions in seconds."""
    each = [abs(guess / seconds - 1) for guess, seconds in zip(predicted, measured, strict=True)]
    middle = statistics.fmean(measured)
    left = math.fsum((guess - seconds) ** 2 for guess, seconds in zip(predicted, measured, strict=True))
    spread = math.fsum((seconds - middle) ** 2 for seconds in measured)
    ordered = sorted(each)
    return Errors(
        mean=statistics.fmean(each),
        median=statistics.median(each),
        p95=ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        r_squared=1 - left / spread,
        steps=len(each),
    )


def learned(steps: Sequence[Measured], passes: int = 1) -> Predictor:
    """A predictor that has seen the steps."""
    predictor = Predictor()
    for _ in range(passes):
        for step in steps:
            predictor.observe(step.load, step.seconds)
    return predictor


def frozen(predictor: Predictor, steps: Sequence[Measured]) -> list[float]:
    """What it says of steps that it does not learn from. Seconds."""
    return [predictor.seconds(step.load) for step in steps]


def online(predictor: Predictor, steps: Sequence[Measured]) -> list[float]:
    """What it says of each step before it learns from it, as in the product. Seconds."""
    found = []
    for step in steps:
        found.append(predictor.seconds(step.load))
        predictor.observe(step.load, step.seconds)
    return found


def from_cold(steps: Sequence[Measured]) -> dict[str, tuple[float, str]]:
    """Errors of the steps that an engine begins with: each is predicted before it is learned."""
    predicted = online(Predictor(), steps[: COLD[-1][1]])
    pairs = list(zip(predicted, (step.seconds for step in steps), strict=False))
    return {
        f"cold_{first}_{last}_error_mean": (
            statistics.fmean(abs(guess / seconds - 1) for guess, seconds in pairs[first - 1 : last]),
            "fraction",
        )
        for first, last in COLD
    }


def harli(steps: Sequence[Measured], held_out: Sequence[Measured]) -> list[float]:
    """Harli's Eq. 2 with a term for each kind of rows and their context, fitted at once: no pieces, no cache."""
    table, values = np.array([_terms(step.load) for step in steps]), np.array([step.seconds for step in steps])
    fitted = np.linalg.lstsq(table / values[:, None], np.ones(len(values)), rcond=None)[0]
    return [float(np.dot(_terms(step.load), fitted)) for step in held_out]


def _terms(load: Load) -> list[float]:
    rows = [load.decode_rows, load.prefill_tokens, load.ride_tokens]
    contexts = [load.decode_context, load.prefill_context, load.ride_context]
    return [1.0, *rows, *(context / 1000 for context in contexts)]


def noise(steps: Sequence[Measured], *, riding: bool) -> float | Missing:
    """How far apart two steps of the same rows and contexts are that follow each other closely: nobody can do better.

    Of steps without a prompt, with a window or without one. The mean of the differences as fractions, over the square
    root of two: both of a pair are off. Contexts count as the same within 128 tokens of requests, 512 of a window.
    """
    last: dict[tuple[int, ...], int] = {}
    apart = []
    for number, step in enumerate(steps):
        load = step.load
        if load.prefill_tokens or (load.ride_tokens > 0) != riding:
            continue
        rows = load.decode_rows, load.ride_tokens, load.decode_context >> 7, load.ride_context >> 9
        before = last.get(rows)
        if before is not None and number - before < _NEAR:
            apart.append(abs(step.seconds / steps[before].seconds - 1))
        last[rows] = number
    return statistics.fmean(apart) / math.sqrt(2) if apart else Missing("no two steps of the same rows were near")


def planner_microseconds(predictor: Predictor, steps: Sequence[Measured]) -> tuple[float, float]:
    """Of a decision that is made anew, and of one that was made before; medians of single ones.

    Decided is of the steps without a prompt, for windows of 256 tokens at most.
    """
    found = [step for step in steps if step.load.decode_rows and not step.load.prefill_tokens]
    loads = [step.load.online for step in found]
    bound = LatencyBound(percentile=99.0, seconds=_ROOM * statistics.median(map(predictor.seconds, loads)))
    terms = RideTerms(ttft=LatencyBound(percentile=99.0, seconds=20 * bound.seconds), tpot=bound, memory_bytes=1)
    planner = Planner(terms, predictor)

    def anew(load: Load) -> object:
        predictor.version += 1
        return planner.plan(load, 256, False)

    again = [loads[0]] * _ROUNDS
    return _microseconds(anew, loads), _microseconds(lambda load: planner.plan(load, 256, False), again)


def _microseconds(work: Callable[[Load], object], loads: Sequence[Load]) -> float:
    clock = time.perf_counter_ns
    return (_median(clock, work, loads) - _median(clock, lambda _: None, loads)) / 1000


def _median(clock: Callable[[], int], work: Callable[[Load], object], loads: Sequence[Load]) -> float:
    times = []
    for load in loads:
        begun = clock()
        work(load)
        times.append(clock() - begun)
    return statistics.median(times)
