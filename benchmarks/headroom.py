"""How often memory is taken from offline work, and how much of it is kept from it: the policy against fixed headrooms.

What an online engine needs follows from requests (`traffic/kv_use.py`): of a public trace, drawn anew for each seed, or
made up. The memory is divided as on a node, by the same policy: a native thread raises the headroom as soon as there is
pressure, the policy runs twice a second. Offline work takes whatever is left at once, so every increase of the headroom
is a reclaim: no offline work makes more of them.

    figures        the policy with the default target
    target_N       the policy with other targets
    additive       the same, but that tau is lowered by a fixed amount, as in Valve (section 5): with more than six
                   reclaims in six of the target's intervals, and a new one, it is doubled, else it loses a 256th of one
    fixed_N        N % of the pool are the online side's; what it needs above that is taken, and given back at once
    best_fixed     the least fixed headroom that, in hindsight, keeps the default target on that very load

`late_per_hour` counts the half seconds in which more was needed than was mapped: the online side waited for a reclaim.
Figures are medians over the seeds, from the fourth hour on, with intervals.
"""

import argparse
import math
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from reporting.blocks import LEAST_BLOCKS, median_interval
from reporting.report import Figures, Missing, print_report, report
from traffic.kv_use import Engine, holdings, tokens_held
from traffic.traffic import TRACES, traffic

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.headroom import (
    RECLAIM_SECONDS,
    START_STEPS,
    HeadroomDecision,
    HeadroomState,
    Observation,
    decide,
    reclaim_interval,
    tau_min,
)

PERIOD_SECONDS = 0.5
WARM_UP_SECONDS = 4 * 3600.0
HOUR_SECONDS = 3600.0
# A model of 8 billion parameters on one large GPU, 128 KiB a token: 16 tokens to a handle of 2 MiB.
ENGINE = Engine(prefill=20_000.0, decode=40.0)
TOKENS_PER_HANDLE = 16
# The service has memory for somewhat more than the most that it ever needs.
PEAK_PART = 0.8
LOADS = (*TRACES, "bursty")
TARGETS = (2, 60)
FIXED_PERCENT = (0, 25, 50, 75)
UNITS = {
    "reclaims_per_hour": "1/h",
    "first_hour_reclaims": "1",
    "late_per_hour": "1/h",
    "held_back": "fraction of the pool",
    "left_for_offline": "fraction of the pool",
}


@dataclass
class Tally:
    """What one way of keeping headroom has done so far. Memory in handles."""

    pool: int
    time: float = 0.0
    last_reclaim: float = -math.inf
    first_hour: int = 0
    reclaims: int = 0
    late: int = 0
    periods: int = 0
    held_back: int = 0
    left: int = 0

    def add(self, used: int, before: int, headroom: int) -> None:
        """One period more: what is used, and the headroom before and after it was seen."""
        reclaim = headroom > before and self.time - self.last_reclaim >= RECLAIM_SECONDS
        if reclaim:
            self.last_reclaim = self.time
        if self.time < HOUR_SECONDS:
            self.first_hour += reclaim
        if self.time >= WARM_UP_SECONDS:
            self.reclaims += reclaim
            self.late += used > before
            self.periods += 1
            self.held_back += headroom - used
            self.left += self.pool - headroom
        self.time += PERIOD_SECONDS

    def figures(self) -> dict[str, float]:
        """By name, as in `UNITS`."""
        hours = self.periods * PERIOD_SECONDS / HOUR_SECONDS
        whole = self.periods * self.pool
        return {
            "reclaims_per_hour": self.reclaims / hours,
            "first_hour_reclaims": float(self.first_hour),
            "late_per_hour": self.late / hours,
            "held_back": self.held_back / whole,
            "left_for_offline": self.left / whole,
        }


class Additive:
    """Tau as Valve has it: doubled above the target, lowered by a fixed amount below it, at each of its looks."""

    def __init__(self, service: HarvestMemory) -> None:
        self._interval, self._service = reclaim_interval(service), service
        self._tau, self._looked = START_STEPS * tau_min(service), 0.0
        self._reclaims: list[float] = []

    def tau(self, state: HeadroomState) -> float:
        """After a decision."""
        if state.reclaim == state.time:
            self._reclaims = [*self._reclaims, state.time][-7:]
        if state.time - self._looked >= self._interval:
            over = len(self._reclaims) == 7 and self._reclaims[0] > state.time - 6 * self._interval
            if not over:
                self._tau -= tau_min(self._service)
            elif self._reclaims[-1] > self._looked:
                self._tau *= 2
            self._tau = min(self._interval, max(tau_min(self._service), self._tau))
            self._looked = state.time
        return self._tau


def policy(needs: Sequence[int], pool: int, target: int, *, additive: bool = False) -> Tally:
    """The node's policy, or, with `additive`, what it would do with Valve's tau."""
    tally, service = Tally(pool), HarvestMemory(target_reclaims_per_hour=target)
    taus = Additive(service)
    decision: HeadroomDecision | None = None
    headroom, taken = needs[0], 0
    for used in needs:
        before = headroom
        if decision and used >= service.pressure_threshold * headroom:
            headroom = decision.growth
        taken += headroom - before
        seen = Observation(pool=pool, headroom=headroom, used=used, taken=taken)
        decision = decide(decision.state if decision else None, seen, tally.time, service)
        if additive:
            decision = replace(decision, state=replace(decision.state, tau=taus.tau(decision.state)))
        taken += max(0, decision.state.headroom - headroom)
        headroom = decision.state.headroom
        tally.add(used, before, headroom)
    return tally


def fixed(needs: Sequence[int], pool: int, least: int) -> Tally:
    """A headroom that stays as it is, but for what is used above it."""
    tally, headroom = Tally(pool), max(least, needs[0])
    for used in needs:
        before, headroom = headroom, max(least, used)
        tally.add(used, before, headroom)
    return tally


def best_fixed(needs: Sequence[int], pool: int, target: int) -> Tally:
    """The least fixed headroom with at most so many reclaims per hour, by bisection."""
    low, high = -1, pool
    found = fixed(needs, pool, pool)
    while high - low > 1:
        middle = (low + high) // 2
        tried = fixed(needs, pool, middle)
        if tried.figures()["reclaims_per_hour"] <= target:
            high, found = middle, tried
        else:
            low = middle
    return found


def strategies(pool: int, target: int) -> dict[str, Callable[[Sequence[int]], Tally]]:
    """By name; `policy` has the default target."""
    return {
        "policy": partial(policy, pool=pool, target=target),
        **{f"target_{other}": partial(policy, pool=pool, target=other) for other in TARGETS},
        "additive": partial(policy, pool=pool, target=target, additive=True),
        **{f"fixed_{percent}": partial(fixed, pool=pool, least=pool * percent // 100) for percent in FIXED_PERCENT},
        "best_fixed": partial(best_fixed, pool=pool, target=target),
    }


def handles_needed(load: str, hours: float, seed: int) -> list[int]:
    """Handles in each period."""
    seconds = hours * HOUR_SECONDS
    requests = traffic(load, seconds, random.Random(f"{load} {seed}"))
    tokens = tokens_held(holdings(requests, ENGINE), PERIOD_SECONDS, seconds)
    return [math.ceil(count / TOKENS_PER_HANDLE) for count in tokens]


def measured(load: str, hours: float, target: int, seed: int) -> dict[str, dict[str, float]]:
    """Strategy → figure → value, for one load and seed."""
    needs = handles_needed(load, hours, seed)
    pool = math.ceil(max(needs) / PEAK_PART)
    return {name: strategy(needs).figures() for name, strategy in strategies(pool, target).items()}


def _rows(load: str, runs: Sequence[Mapping[str, float]]) -> Figures:
    rows: dict[str, tuple[float | Missing, str]] = {}
    for figure, unit in UNITS.items():
        values = [run[figure] for run in runs]
        interval = median_interval(values)
        missing = Missing(f"{len(values)} of the {LEAST_BLOCKS} seeds that an interval takes")
        rows[f"{load}_{figure}"] = (median(values), unit)
        rows[f"{load}_{figure}_low"] = (interval.low if interval else missing, unit)
        rows[f"{load}_{figure}_high"] = (interval.high if interval else missing, unit)
    return rows


def run(seeds: int, hours: float, seed: int) -> dict[str, Any]:
    """The whole benchmark: so many seeds from `seed` on, each so many hours long, above the four that do not count."""
    target = HarvestMemory().target_reclaims_per_hour
    with ProcessPoolExecutor() as workers:
        runs = {
            load: list(workers.map(partial(measured, load, hours, target), range(seed, seed + seeds))) for load in LOADS
        }
    found: dict[str, dict[str, Any]] = {}
    for load, by_seed in runs.items():
        for name in by_seed[0]:
            found.setdefault(name, {}).update(_rows(load, [figures[name] for figures in by_seed]))
    figures = {"target_reclaims_per_hour": (float(target), "1/h"), **found.pop("policy")}
    obj = report("headroom", seed, figures, found, ("rowen",))
    obj["repeats"] = [
        {"load": load, "seed": seed + number, **by_name}
        for load, rows in runs.items()
        for number, by_name in enumerate(rows)
    ]
    return obj


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="6 seeds of 8 hours")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seeds, hours = (6, 8.0) if arguments.quick else (12, 24.0)
    print_report(run(seeds, hours, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()
