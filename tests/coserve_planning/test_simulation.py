"""An engine for some minutes, step by step, with noise, stalls and a machine that changes."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from coserve_planning.machines import riding, step_seconds, terms

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor

STEPS = 1600
Machine = Callable[[int], float]
"""By step, how much slower than usual the machine is."""


@dataclass
class Outcome:
    """What requests and riders got."""

    tpots: list[float]
    """Mean of sixteen gaps each."""
    tokens: int = 0
    """That rode."""
    part_seconds: float = 0.0

    def late(self, bound: float, since: int = 0) -> float:
        """Fraction of them."""
        told = self.tpots[since:]
        return sum(tpot > bound for tpot in told) / len(told)


def part_seconds(tokens: int) -> float:
    return 0.001 + 0.0003 * tokens


def served(machine: Machine, percentile: float, steps: int = STEPS, ride_cost: float = 1.0, seed: int = 1) -> Outcome:
    """Windows and parts wait at all times; one to eight requests decode."""
    planner, draw = Planner(terms(percentile=percentile), Predictor()), random.Random(seed)
    outcome, gaps, rows = Outcome([]), [], 4
    for step in range(steps):
        rows = max(1, min(8, rows + draw.choice((-1, 0, 0, 0, 1))))
        load = Load(rows, rows * 200)
        plan = planner.plan(load, 1000, True)
        ridden = riding(load, plan.ride_tokens)
        alone = step_seconds(load)
        slowness = machine(step) * max(0.8, draw.gauss(1, 0.04))
        seconds = slowness * (alone + ride_cost * (step_seconds(ridden) - alone))
        planner.observe(ridden, seconds)
        gap, left = seconds, plan.part_seconds
        while left > 0:
            tokens = min(64, planner.part_tokens("Backward", left))
            took = slowness * part_seconds(tokens)
            planner.observe_part("Backward", tokens, tokens * 100, took)
            outcome.part_seconds += took
            gap, left = gap + took, left - max(took, 0.0005)
            if planner.predictor.part_seconds("Backward", 1, 100) > left:
                break
        planner.observe_gap(gap)
        outcome.tokens += plan.ride_tokens
        gaps.append(gap)
        if len(gaps) == 16:
            outcome.tpots.append(sum(gaps) / 16)
            gaps.clear()
    return outcome


@pytest.mark.parametrize("percentile", [90.0, 99.0])
def test_the_percentile_is_kept_and_riders_get_on(percentile: float) -> None:
    found = served(lambda _: 1.0, percentile)
    assert found.late(0.05, since=20) <= 1 - percentile / 100 + 0.005
    # Every other step has a window of some 50 tokens, and the others parts of some 30 ms.
    assert found.tokens > STEPS * 0.5 * 35
    assert found.part_seconds > STEPS * 0.5 * 0.025


def test_stalls_cost_riders_little() -> None:
    calm = served(lambda _: 1.0, 90.0)
    stalled = served(lambda step: 8.0 if step % 300 == 0 else 1.0, 90.0)
    assert stalled.tokens > 0.7 * calm.tokens


def test_a_machine_that_becomes_slower_is_followed_within_a_few_steps() -> None:
    found = served(lambda step: 1.6 if step >= 800 else 1.0, 90.0)
    assert found.late(0.05, since=20) <= 0.11
    # Sixteen gaps are one observation: of those around the change two at most are late.
    around = found.tpots[49:59]
    assert sum(tpot > 0.05 for tpot in around) <= 2
    assert found.tokens > STEPS * 0.5 * 24


def test_a_machine_that_becomes_faster_is_used() -> None:
    slow, faster = (served(machine, 90.0) for machine in (lambda _: 1.6, lambda step: 1.0 if step >= 400 else 1.6))
    assert faster.tokens > 1.5 * slow.tokens


def test_a_machine_that_drifts_is_followed() -> None:
    found = served(lambda step: 1 + 0.5 * step / STEPS, 95.0)
    assert found.late(0.05, since=20) <= 0.06


def test_riders_that_cost_twice_what_is_usual_get_less_and_make_nothing_late() -> None:
    dear = served(lambda _: 1.0, 95.0, ride_cost=2.0)
    assert dear.late(0.05, since=20) <= 0.06
    assert dear.tokens > STEPS * 0.5 * 18


def test_an_engine_without_time_to_spare_is_left_alone() -> None:
    found = served(lambda _: 4.0, 99.0, steps=800)
    alone = 800 * 4 * 0.017
    assert found.part_seconds < 0.02 * alone
    assert found.tokens < 800 * 0.2
