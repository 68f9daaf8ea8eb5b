"""How far the predicted throughput T(w, n) is off, on loads that it was not fitted on, and how far the promise is.

The truth is a replay (`replay/`): an engine's requests, event by event, close the gate and take memory by the product's
headroom policy; tenants work in what is left, step by step, and know nothing of the formula. What is predicted is
predicted by the scheduler's own model, from reports made by the agent's own sketches. Each class is profiled as in the
cluster, from 60 s windows of an hour under the load `code`, and predicted under the others.

    figures            idle x memory x alignment, with the learned curve, in windows of ten minutes
    prior              the same without a measured curve: what is assumed of a class that has never run
    idle_only          the idle fraction alone
    mean_memory        the curve at the mean memory, in place of the mean of the curve
    no_alignment       the least idle device of a lockstep job, in place of the time in which all are idle

`promise_*`: predicted from a report of 60 s and the hour before it, against the ten minutes after it, which is what a
placement promises; beside `minute_only`, which knows the 60 s alone. `promise_kept`: parts of the promises that hold,
less their margin. Errors are of the throughput over the throughput alone, absolute. `relative_error` and
`promise_relative_error` are the mean errors as parts of what was measured in the mean. `error_over_best_baseline` is
the mean error less that of the best of the three simpler ways.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from statistics import mean, quantiles
from typing import Any

from replay.node import PERIOD_SECONDS, POOL, Device, device, report
from replay.tenants import TOKENS_PER_HANDLE, Batch, Tenant, Tuner
from reporting.bars import Bars
from reporting.report import Figures, print_report
from reporting.report import report as printed

from rowen.scheduler.model.evidence import MemoryEvidence, features, learned
from rowen.scheduler.model.memory import MemoryCurve, MemoryNeed, linear_need, memory_doubt, memory_factor
from rowen.scheduler.model.prediction import combined, foreseen, idle_fraction, idle_of
from rowen.scheduler.model.profile import PredictionError, Profile, Window, refined

LOADS = ("conv", "bursty")
FITTED = "code"
FIT_SECONDS = 3600.0
REPORT_SECONDS = 60.0
LEARN_SECONDS = 20.0
WINDOW_SECONDS = 600.0
HOUR_SECONDS = 3600.0
SOLO_SECONDS = 600.0
ASSUMED_DOUBT = 0.5
PARTS = {"batch_short": 0.3, "batch_long": 0.6, "batch_wide": 1.0, "tuner": 0.4}
"""Workload → what it wants, of the device's pool."""
STRATEGIES = ("figures", "prior", "idle_only", "mean_memory")
BARS: Bars = {
    "mean_abs_error": (0.05, "at most"),
    "relative_error": (0.10, "at most"),
    "promise_relative_error": (0.10, "at most"),
    "error_over_best_baseline": (0.0, "at most"),
}
"""0.10 is what the scheduler takes a new class's predictions to be off by, so what its margin covers."""


def tenant(name: str, pool: int) -> Tenant:
    """A new tenant of a workload on a device with such a pool."""
    want = max(1, round(PARTS[name] * pool))
    if name == "tuner":
        return Tuner(want, step_tokens=2048, step_seconds=0.4, load_seconds=0.5)
    prompt, output = {"batch_short": (256, 128), "batch_long": (1500, 400), "batch_wide": (800, 200)}[name]
    most = max(1, want // -(-(prompt + output) // TOKENS_PER_HANDLE))
    return Batch(prompt, output, most, step_seconds=0.02, row_seconds=0.02 / 40)


def prior(name: str, want: int) -> MemoryNeed:
    """What the scheduler assumes of such a job."""
    if name == "tuner":
        return MemoryNeed(MemoryCurve(((0.0, 0.5), (float(want), 1.0))), want, doubt=ASSUMED_DOUBT)
    return linear_need(want, doubt=ASSUMED_DOUBT)


def work(job: Tenant, seen: Device, begin: float, end: float) -> float:
    """Lets it work while the gate is open; tokens."""
    before = job.tokens
    for first, last in seen.open_between(begin, end):
        at = first
        while at < last:
            period = floor(at / PERIOD_SECONDS + 1e-9)
            until = min(last, (period + 1) * PERIOD_SECONDS)
            job.run(until - at, min(job.want, seen.available(period)))
            at = until
    return job.tokens - before


def solo(name: str, pool: int) -> float:
    """Tokens per second alone, with all the memory that it wants."""
    job = tenant(name, pool)
    job.run(SOLO_SECONDS, job.want)
    before = job.tokens
    job.run(SOLO_SECONDS, job.want)
    return (job.tokens - before) / SOLO_SECONDS


def profiled(name: str) -> Profile:
    """What the scheduler learns of a class in an hour."""
    seen = device(FITTED, FIT_SECONDS, "fit")
    job, found, evidence = tenant(name, seen.pool), None, MemoryEvidence()
    tokens = granted = 0.0
    sums = [0.0] * 5
    for number in range(1, int(FIT_SECONDS / REPORT_SECONDS)):
        begin, end = number * REPORT_SECONDS, (number + 1) * REPORT_SECONDS
        view = report(seen, "a", begin, end)
        done, part = work(job, seen, begin, end), view.idle * REPORT_SECONDS
        tokens, granted = tokens + done, granted + part
        sums = [old + part * value for old, value in zip(sums, features(view.available, job.want), strict=True)]
        if granted >= LEARN_SECONDS:
            found = refined(found, Window("fit", tokens, granted, alone=True), end)
            evidence = evidence.updated(tuple(value / granted for value in sums), tokens / granted, granted)
            tokens, granted, sums = 0.0, 0.0, [0.0] * 5
    assert found is not None
    return replace(found, memory=evidence)


@dataclass(frozen=True)
class Case:
    """One window: what was foretold by each way, and what came."""

    load: str
    workload: str
    measured: float
    predicted: Mapping[str, float]
    kept: bool | None = None


def needed(name: str, want: int, known: Profile) -> MemoryNeed:
    """With what was learned."""
    assert known.memory is not None
    return learned(prior(name, want), known.memory, known.tokens_per_second)


def windows(load: str, name: str, seen: Device, known: Profile, seconds: float) -> Iterator[tuple[Case, Case | None]]:
    """Windows of ten minutes: explained by what was reported of the very window, and promised before it."""
    job, truth = tenant(name, seen.pool), solo(name, seen.pool)
    need, off = needed(name, job.want, known), known.tokens_per_second / truth
    for number in range(int(seconds / WINDOW_SECONDS)):
        begin, end = number * WINDOW_SECONDS, (number + 1) * WINDOW_SECONDS
        measured = work(job, seen, begin, end) / WINDOW_SECONDS / truth
        view = report(seen, "a", begin, end)
        explained = Case(load, name, measured, {
            "figures": off * view.idle * memory_factor(need, view.available),
            "prior": view.idle * memory_factor(prior(name, job.want), view.available),
            "idle_only": off * view.idle,
            "mean_memory": off * view.idle * memory_factor(need, (round(mean(view.available)),)),
        })  # fmt: skip
        if number:
            yield explained, None if begin < HOUR_SECONDS else promised(load, name, seen, need, off, begin, measured)


def promised(load: str, name: str, seen: Device, need: MemoryNeed, off: float, now: float, measured: float) -> Case:
    """What the report at `now` promises for the ten minutes after it."""
    view = report(seen, "a", now - REPORT_SECONDS, now, (HOUR_SECONDS,))
    level = idle_of([foreseen(view, REPORT_SECONDS)])
    memory = memory_factor(need, view.available)
    fraction = off * level.fraction * memory
    bound = PredictionError().bound_with(combined(level, memory_doubt(need, memory), 1.0))
    predicted = {"figures": fraction, "minute_only": off * view.idle * memory}
    return Case(load, name, measured, predicted, measured >= fraction * (1.0 - bound))


def lockstep(load: str, seconds: float, seed: int) -> Iterator[Case]:
    """A job on two devices: of one service, a moment apart, and of two services."""
    first = device(load, seconds, f"a {seed}")
    for kind, second in (("one", device(load, seconds, f"a {seed}", 0.3)), ("two", device(load, seconds, f"b {seed}"))):
        for number in range(int(seconds / WINDOW_SECONDS)):
            begin, end = number * WINDOW_SECONDS, (number + 1) * WINDOW_SECONDS
            views = [report(first, "a", begin, end), report(second, "b", begin, end)]
            both = sum(_shared(span, second.open_between(*span)) for span in first.open_between(begin, end))
            predicted = {"figures": idle_fraction(views), "no_alignment": min(view.idle for view in views)}
            yield Case(load, f"lockstep_{kind}", both / WINDOW_SECONDS, predicted)


def _shared(span: tuple[float, float], spans: Sequence[tuple[float, float]]) -> float:
    return sum(min(end, span[1]) - max(begin, span[0]) for begin, end in spans)


def measured(load: str, seed: int, hours: float, known: Mapping[str, Profile]) -> dict[str, list[Case]]:
    """All cases under one load and seed, by kind."""
    seconds = hours * HOUR_SECONDS
    seen = device(load, seconds, f"test {seed}")
    found: dict[str, list[Case]] = {
        "explained": [], "promised": [], "lockstep": list(lockstep(load, HOUR_SECONDS, seed))
    }  # fmt: skip
    for name, profile in known.items():
        for explained, promise in windows(load, name, seen, profile, seconds):
            found["explained"].append(explained)
            found["promised"] += [promise] if promise else []
    return found


def errors(cases: Sequence[Case], strategy: str) -> list[float]:
    """Absolute errors of those that the strategy foretells."""
    return [abs(case.predicted[strategy] - case.measured) for case in cases if strategy in case.predicted]


def _rows(cases: Sequence[Case], strategy: str, prefix: str = "") -> Figures:
    """Mean and 95th percentile, all together and by load and workload."""
    found = errors(cases, strategy)
    rows: dict[str, tuple[float, str]] = {
        f"{prefix}mean_abs_error": (mean(found), "fraction"),
        f"{prefix}abs_error_p95": (quantiles(found, n=20)[-1], "fraction"),
    }
    by: tuple[Callable[[Case], str], ...] = (lambda case: case.load, lambda case: case.workload)
    for key in by:
        for value in sorted({key(case) for case in cases}):
            some = errors([case for case in cases if key(case) == value], strategy)
            rows[f"{prefix}{value}_mean_abs_error"] = (mean(some), "fraction")
    return rows


def run(seeds: int, hours: float, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    tasks = [(load, number) for load in LOADS for number in range(seed + 1, seed + 1 + seeds)]
    with ProcessPoolExecutor() as workers:
        known = dict(zip(PARTS, workers.map(profiled, PARTS), strict=True))
        parts = list(workers.map(partial(_task, hours=hours, known=known), tasks))
    cases = {kind: [case for part in parts for case in part[kind]] for kind in ("explained", "promised", "lockstep")}
    return told(cases, known, seed)


def told(cases: Mapping[str, Sequence[Case]], known: Mapping[str, Profile], seed: int) -> dict[str, Any]:
    """The object. `cases`: by kind; `known`: what was learned of each workload."""
    single = {name: _rows(cases["explained"], name) for name in STRATEGIES}
    kept = [float(case.kept) for case in cases["promised"] if case.kept is not None]
    figures = {
        **_compared(single),
        **single.pop("figures"),
        **_rows(cases["lockstep"], "figures", "lockstep_"),
        **_rows(cases["promised"], "figures", "promise_"),
        "relative_error": (_relative(cases["explained"]), "fraction"),
        "promise_relative_error": (_relative(cases["promised"]), "fraction"),
        "promise_kept": (mean(kept), "fraction"),
        **{
            f"{name}_solo_error": (profile.tokens_per_second / solo(name, POOL) - 1.0, "fraction")
            for name, profile in known.items()
        },
        "measured_mean": (mean(case.measured for case in cases["explained"]), "fraction"),
        "windows": (float(len(cases["explained"])), "1"),
    }
    baselines: dict[str, Figures] = {
        **single,
        "no_alignment": _rows(cases["lockstep"], "no_alignment", "lockstep_"),
        "minute_only": _rows(cases["promised"], "minute_only", "promise_"),
    }
    return printed("prediction", seed, figures, baselines, ("rowen", "numpy"), BARS)


def _compared(single: Mapping[str, Figures]) -> Figures:
    """What the model is better by than the best simpler way: below 0."""
    others = [_error(rows) for name, rows in single.items() if name != "figures"]
    return {"error_over_best_baseline": (_error(single["figures"]) - min(others), "fraction")}


def _error(rows: Figures) -> float:
    value, _ = rows["mean_abs_error"]
    assert isinstance(value, float)
    return value


def _relative(cases: Sequence[Case]) -> float:
    """The mean error as a part of the mean that was measured."""
    return mean(errors(cases, "figures")) / mean(case.measured for case in cases)


def _task(task: tuple[str, int], hours: float, known: Mapping[str, Profile]) -> dict[str, list[Case]]:
    return measured(*task, hours, known)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="one seed of two hours")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seeds, hours = (1, 2.0) if arguments.quick else (3, 4.0)
    print_report(run(seeds, hours, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
